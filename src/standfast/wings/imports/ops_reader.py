"""Op records: a directory of `op_*.json` files, one for each operation of an agent's gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.wings.imports.jsonl_reader import LONGEST_LINE, read_line
from standfast.wings.imports.words import BadRecord, Record, Source

PATTERN = "op_*.json"


def ops(directory: str) -> Source:
    """Return a directory of op records as a source."""
    place = Path(directory)
    if not place.is_dir():
        raise ConfigurationError(f"{directory} is not a directory; name the one that has the {PATTERN} files")
    return Source(
        kind="ops",
        name=os.path.realpath(place),
        shown=directory,
        read=partial(_records, place),
        count=lambda: len(_files(place)),
        rejects=f"{directory.rstrip('/') or directory}.rejects.jsonl",
    )


def _files(place: Path) -> list[Path]:
    return sorted(each for each in place.glob(PATTERN) if each.is_file())


def _records(place: Path) -> Iterator[Record | BadRecord]:
    """Read records in the order of their names. One that disappears meanwhile is rejected, and the rest goes on."""
    for number, file in enumerate(_files(place), start=1):
        try:
            if file.stat().st_size > LONGEST_LINE:
                yield BadRecord(number, file.name, "", f"it has more than {LONGEST_LINE} bytes")
                continue
            content = file.read_bytes()
        except OSError as error:
            yield BadRecord(number, file.name, "", f"it cannot be read: {error.strerror or error}")
            continue
        found = read_line(number, file.name, content)
        yield found._replace(own_id=file.stem) if isinstance(found, Record) else found
