"""Records in a file of JSON lines, as hand-written queues keep them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import msgspec

from standfast.errors import ConfigurationError, PayloadRejected
from standfast.spine.payload import parse
from standfast.wings.imports.words import BadRecord, Record, Source

LONGEST_LINE = 16 << 20
"""The most bytes of one line; a longer one is not a record."""
CHUNK = 1 << 20
STDIN = "-"


def jsonl(path: str) -> Source:
    """Return a file of JSON lines as a source; `-` is standard input."""
    place = "standard input" if path == STDIN else os.path.realpath(path)
    rejects = "stdin.rejects.jsonl" if path == STDIN else f"{path}.rejects.jsonl"
    return Source(
        kind="jsonl",
        name=place,
        shown=path,
        read=partial(_records, path),
        count=partial(_count, path),
        rejects=rejects,
        may_contradict=path != STDIN and Path(path).is_file(),
    )


def _records(path: str) -> Iterator[Record | BadRecord]:
    with opened(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                _skip_line(file)
                yield BadRecord(number, f"line {number}", "", f"it has more than {LONGEST_LINE} bytes")
            elif line.strip():
                yield read_line(number, f"line {number}", line)


def read_line(number: int, name: str, line: bytes) -> Record | BadRecord:
    """Read one record from JSON."""
    raw = line.strip().decode("utf-8", "replace")
    try:
        value = parse(line.strip(), "it")
    except (PayloadRejected, UnicodeError) as error:
        return BadRecord(number, name, raw, str(error).removesuffix("; nothing was written"))
    why = unstorable(value)
    if why is not None:
        return BadRecord(number, name, raw, why)
    if not isinstance(value, dict):
        return BadRecord(number, name, raw, f"it is a JSON {type(value).__name__} and not an object")
    if "format" in value and isinstance(value.get("failure"), dict):
        why = "it is a letter that standfast exported; bring the file in with: standfast dead import"
        return BadRecord(number, name, raw, why)
    return Record(number, name, value, raw, content=raw)


def unstorable(value: object) -> str | None:
    """Say what keeps a record from being stored, wherever in it that is; None if nothing does."""
    try:
        encoded = msgspec.json.encode(value)
    except (UnicodeError, OverflowError, RecursionError) as error:
        return f"it holds what cannot be stored: {error}"
    return "it holds a NUL character" if b"\\u0000" in encoded else None


def _skip_line(file: IO[bytes]) -> None:
    while (part := file.readline(LONGEST_LINE)) and not part.endswith(b"\n"):
        pass


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file for reading; a file that cannot be opened is an error of one line."""
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed below; only a failed opening is handled here
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}; name another file") from error
    with file:
        yield file


def _count(path: str) -> int | None:
    """Count lines; None for a source that cannot be read twice."""
    if path == STDIN or not Path(path).is_file():
        return None
    with opened(path) as file:
        return sum(chunk.count(b"\n") for chunk in iter(partial(file.read, CHUNK), b""))
