"""Which processes use a file, as the system's lists of locks and open files tell; empty where there are none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
OPEN = range(0x40000002, 0x40000002 + 510)
"""The bytes of a database that SQLite locks for as long as it has it open."""
READING = range(123, 128)
"""The bytes of a WAL's index that SQLite locks while it reads an old state."""


def users_of(path: str) -> list[str]:
    """Name the processes that have a database open, also one that was deleted or replaced since."""
    return _names({*_lockers(path, OPEN), *_openers(path)})


def readers_of(path: str) -> list[str]:
    """Name the other processes that read an old state of a database and keep its WAL from being emptied."""
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
        with suppress(OSError):  # it has just ended, or is another user's
            if any(_target(link) in names for link in (process / "fd").iterdir()):
                yield int(process.name)


def _numbered(directory: Path) -> list[Path]:
    return [each for each in directory.iterdir() if each.name.isdigit()] if directory.exists() else []


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed while we looked


def _names(pids: Iterable[int]) -> list[str]:
    return [f"process {pid}{_called(pid)}" for pid in sorted(pids) if pid > 0]


def _called(pid: int) -> str:
    try:
        return f" ({(PROC / str(pid) / 'comm').read_text().strip()})"
    except OSError:
        return ""
