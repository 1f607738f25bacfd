"""Checks that the open files are still the ones their names lead to: data written to any others is lost.

SQLite itself notices none of this. A WAL that was deleted takes commits that are never read again; one that was cut
short has a gap, at which the next recovery ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import quote

import apsw

WAL_HEADER, FRAME_HEADER = 32, 24
CHECKPOINT_TRIES, CHECKPOINT_PAUSE = 10, 0.02
REMOVED, REPLACED, CUT = "removed", "replaced by another file", "cut short"


class Damage(NamedTuple):
    """What happened to which file. `mendable`: the database is whole, and closing the open handles completes it."""

    file: str
    what: str
    mendable: bool = False


class _File:
    """One file as it was when last seen."""

    def __init__(self, path: str) -> None:
        self.path = path
        found = os.stat(path)  # noqa: PTH116 - in every round, and a Path takes several times as long
        self.device, self.inode = found.st_dev, found.st_ino
        self.size = found.st_size

    def look(self) -> int | str:
        """Return the size, or what happened to the file."""
        try:
            found = os.stat(self.path)  # noqa: PTH116
        except OSError:
            return REMOVED
        return found.st_size if (found.st_dev, found.st_ino) == (self.device, self.inode) else REPLACED


class Watch:
    """The three files of one database: itself, its WAL, and the WAL's index, which holds the locks of all processes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files: tuple[_File, ...] = ()
        self.wal_bytes = 0
        """How large the WAL was when the last round began."""

    def begin(self) -> None:
        """Note the files that the writer has just opened. The database must remain the one that was seen first."""
        database = self._files[0] if self._files else _File(self._path)
        self._files = (database, _File(f"{self._path}-wal"), _File(f"{self._path}-shm"))
        self.wal_bytes = self._files[1].size

    def database_only(self) -> None:
        """Stop watching the WAL and its index: the last process to close the database removes them, which is normal."""
        self._files = self._files[:1]

    def in_place(self, *, whole: bool = False) -> bool:
        """Return whether every name leads to the same file as before and, if `whole`, no file became smaller.

        Every round makes this check. If it fails, `moved` or `damaged` finds out what that means.
        """
        try:
            for file in self._files:
                found = os.stat(file.path)  # noqa: PTH116
                if found.st_ino != file.inode or found.st_dev != file.device:
                    return False
                if whole:
                    if found.st_size < file.size:
                        return False
                    file.size = found.st_size
        except OSError:
            return False
        if whole and self._files:
            self.wal_bytes = self._files[1].size
        return True

    def moved(self) -> Damage | None:
        """Find a name that leads to another file. Any thread may look at any time, without a lock.

        If the writer closes or opens the database meanwhile, what was seen means nothing, and this looks again.
        """
        while True:
            files = self._files
            damage = _moved(files, [file.look() for file in files])
            if damage is None or files is self._files:
                return damage

    def damaged(self, connection: apsw.Connection) -> Damage | None:
        """Find a file that was moved or cut. Runs in a write transaction before its first write: no other can write."""
        files = self._files
        found = [file.look() for file in files]
        damage = _moved(files, found) or self._cut(connection, found)
        self.wal_bytes = files[1].size if len(files) > 1 else 0
        return damage

    def lost(self) -> Damage | None:
        """Find out if the database itself is gone. The other files may be gone while they are not open."""
        found = self._files[0].look() if self._files else 0
        return Damage(self._path, found) if isinstance(found, str) else None

    def is_shorter(self) -> bool:
        """Return whether a file is shorter than it was, for whatever reason."""
        return any(isinstance(size := file.look(), int) and size < file.size for file in self._files)

    def _cut(self, connection: apsw.Connection, found: Sequence[int | str]) -> Damage | None:
        for file, size, is_whole in zip(self._files, found, WHOLE, strict=False):
            if isinstance(size, int) and size != file.size:
                if size < file.size and not is_whole(connection, self._path, size):
                    return Damage(file.path, CUT)
                file.size = size
        return None


def _moved(files: Sequence[_File], found: Sequence[int | str]) -> Damage | None:
    gone = [(file, what) for file, what in zip(files, found, strict=True) if isinstance(what, str)]
    if not gone:
        return None
    mendable = not isinstance(found[0], str) and all(what == REMOVED for _, what in gone)
    return Damage(gone[0][0].path, gone[0][1], mendable)


def _has_its_pages(_connection: apsw.Connection, path: str, _size: int) -> bool:
    """Return whether a database that became smaller was vacuumed, not cut.

    Its first page says how many pages there are. A checkpoint in progress has written that page first, the others soon.
    """
    for _ in range(CHECKPOINT_TRIES):
        if _agrees_with_its_first_page(path):
            return True
        time.sleep(CHECKPOINT_PAUSE)
    return False


def _agrees_with_its_first_page(path: str) -> bool:
    """Read the database without its WAL. SQLite refuses a file with fewer pages than its first page says."""
    alone = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        with closing(apsw.Connection(f"file:{quote(path)}?immutable=1", flags=alone)) as connection:
            return bool(connection.execute("SELECT count(*) FROM sqlite_schema").get)
    except apsw.Error:
        return False


def _has_its_frames(connection: apsw.Connection, path: str, size: int) -> bool:
    """Return whether a WAL that became smaller was emptied by a checkpoint, not cut."""
    try:
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)) as beside:
            answers: list[tuple[Any, ...]] = beside.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()
    except apsw.Error:
        return False
    [(_, frames, _)] = answers
    page: Any = connection.pragma("page_size")
    return bool(frames <= 0 or size >= WAL_HEADER + frames * (page + FRAME_HEADER))


def _never_shrinks(_connection: apsw.Connection, _path: str, _size: int) -> bool:
    """Report that an index that became smaller is not whole."""
    return False


WHOLE = (_has_its_pages, _has_its_frames, _never_shrinks)
"""For each of the files, the check whether it is whole although it became smaller."""
