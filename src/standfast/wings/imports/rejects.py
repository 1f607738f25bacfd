"""The file of records that were not brought in: one JSON line each, with its number, why, and the record itself."""

from __future__ import annotations

import os
from typing import IO

import msgspec

from standfast.errors import ConfigurationError
from standfast.portable import NO_LINK
from standfast.wings.imports.words import BadRecord, Record


class Rejects:
    """Writes rejected records. The file is created for the first of them; only its owner may read it."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    @property
    def path(self) -> str | None:
        """The file, if there is one."""
        return None if self._file is None else self._path

    def add(self, record: Record | BadRecord, why: str) -> None:
        """Write one record."""
        if self._path is None:
            return
        if self._file is None:
            self._file = _new_file(self._path)
        line = {"number": record.number, "place": record.name, "why": why, "record": record.raw}
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _new_file(path: str) -> IO[bytes]:
    try:
        return os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | NO_LINK, 0o600), "wb")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write rejected records to {path}: {error.strerror or error}; name another file with --rejects"
        ) from error
