"""Which processes use a file, according to the system's lists of locks and open files; none if it has no such lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
OPEN = range(0x40000002, 0x40000002 + 510)
"""The bytes of a database that SQLite locks while it has the database open."""
READING = range(123, 128)
"""The bytes of a WAL's index that SQLite locks while it reads an old snapshot."""


def users_of(path: str) -> list[str]:
    """Return the processes that have a database open, even if the file was since deleted or replaced."""
    return _names({*_lockers(path, OPEN), *_openers(path)})


def readers_of(path: str) -> list[str]:
    """Return the other processes that read an old snapshot of a database and keep its WAL from being emptied."""
    return _names({*_lockers(f"{path}-shm", READING)} - {os.getpid()})


def _lockers(path: str, wanted: range) -> Iterator[int]:
    """Read lines such as `1: POSIX  ADVISORY  READ 4711 fe:00:2165093 124 124`."""
    with suppress(OSError):
        found = Path(path).stat()
        identity = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in (PROC / "locks").read_text().splitlines():
            words = line.split()
            if identity in words and words[-2].isdigit() and int(words[-2]) in wanted:
                yield int(words[words.index(identity) - 1])


def _openers(path: str) -> Iterator[int]:
    names = {path, f"{path} (deleted)"}
    for process in _numbered(PROC):
        with suppress(OSError):  # the process has just ended, or is another user's
            if any(_target(link) in names for link in (process / "fd").iterdir()):
                yield int(process.name)


def _numbered(directory: Path) -> list[Path]:
    return [each for each in directory.iterdir() if each.name.isdigit()] if directory.exists() else []


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed in the meantime


def _names(pids: Iterable[int]) -> list[str]:
    return [f"process {pid}{_called(pid)}" for pid in sorted(pids) if pid > 0]


def _called(pid: int) -> str:
    try:
        return f" ({(PROC / str(pid) / 'comm').read_text().strip()})"
    except OSError:
        return ""
