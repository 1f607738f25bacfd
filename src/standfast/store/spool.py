"""The spool: a file on this host that accepts new jobs while their server cannot, until they are forwarded.

When `put` returns, its jobs are on disk. Entries leave in the order they came, and only once the server has
them. Several processes may share one file. If two of them forward the same entry, it is one job: the id decides.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from standfast.errors import StandfastError, StoreUnavailable
from standfast.job import NewJob
from standfast.printable import data_size
from standfast.store.spoolfile import SpoolFile
from standfast.store.steps import text

ROOM_TO_SPOOL = 64 << 20
"""Free bytes below which the spool accepts no more jobs."""
UNUSABLE = (apsw.Error, OSError, StandfastError)

NEXT_BATCH = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'entry'), 0) + 1"
INSERT = (
    "INSERT OR IGNORE INTO entry (id, batch, job, boot, elapsed, wall, unsure, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
COLUMNS = "seq, batch, job, boot, elapsed, wall, unsure, tries, reason"
OLDEST = f"""
SELECT {COLUMNS} FROM entry
WHERE tries = 0 AND batch <= (SELECT max(batch) FROM (SELECT batch FROM entry WHERE tries = 0 ORDER BY seq LIMIT ?))
ORDER BY seq
"""  # noqa: S608 - constants of ours; jobs that were put together are read together
REFUSED = f"SELECT {COLUMNS} FROM entry WHERE tries > 0 ORDER BY tries, seq LIMIT ?"  # noqa: S608 - likewise
BY_ID = f"SELECT {COLUMNS} FROM entry WHERE id = ?"  # noqa: S608 - likewise
ALL = f"SELECT {COLUMNS} FROM entry ORDER BY seq LIMIT ?"  # noqa: S608 - likewise
DELETE = "DELETE FROM entry WHERE seq IN (SELECT value FROM json_each(?))"
NOTE = "UPDATE entry SET tries = tries + 1, reason = ? WHERE seq IN (SELECT value FROM json_each(?))"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NewJob).decode

Answer = TypeVar("Answer")


class Stamp(NamedTuple):
    """A moment on this host: exact within one boot, and by the wall clock across boots."""

    boot: str
    elapsed: float
    wall: float

    def since(self, earlier: Stamp) -> float:
        """Return the seconds since another moment."""
        return self.elapsed - earlier.elapsed if self.boot == earlier.boot else self.wall - earlier.wall


class Entry(NamedTuple):
    """A job that waits for the server, when it was accepted, and why the server does not have it yet."""

    seq: int
    batch: int
    job: NewJob
    accepted: Stamp
    unsure: bool
    """Whether the server may have stored it before it was spooled."""
    tries: int
    reason: str


class SpoolRequest:
    """The jobs that one caller hands in, and how that ended."""

    __slots__ = ("done", "error", "jobs", "rest")

    def __init__(self, jobs: Sequence[NewJob], *rest: str | float) -> None:
        self.jobs = jobs
        self.rest = rest
        self.done = False
        self.error: StoreUnavailable | None = None


class Spool:
    """One file for one server's schema. Any thread may use it; `spools.spool_at` returns the one of this process."""

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        self.target = target
        self._file = SpoolFile(path, target)
        self._handed_in: deque[SpoolRequest] = deque()
        self._lock = threading.Lock()
        """Held while the file is in use."""
        self.waiting: bool | None = None
        """Whether any entry can be forwarded and has not been, as far as this process knows; None before it looked."""
        self.refuses = False
        """Whether the file holds entries that the server refused."""
        self.trouble: str | None = None
        """Why the file cannot be used, for health."""

    def put(self, jobs: Sequence[NewJob], stamp: Stamp, reason: str, *, unsure: bool = False) -> None:
        """Store jobs, all or none of them; concurrent callers share a commit."""
        request = SpoolRequest(jobs, *stamp, unsure, reason)
        self._handed_in.append(request)
        with self._lock:
            if not request.done:  # else another caller wrote it together with its own
                self._write([self._handed_in.popleft() for _ in range(len(self._handed_in))])
        if request.error is not None:
            raise request.error

    def oldest(self, most: int) -> list[Entry]:
        """Read the entries that have waited longest and were not refused, in order."""
        with self._lock:
            found = [_entry(row) for row in self._read(OLDEST, most)]
            self.waiting = bool(found)
        return found

    def refused(self, most: int) -> list[Entry]:
        """Read the entries that the server refused; no other entry waits behind them."""
        with self._lock:
            found = [_entry(row) for row in self._read(REFUSED, most)]
            self.refuses = bool(found)
        return found

    def entries(self, most: int) -> list[Entry]:
        """Read all entries, oldest first."""
        with self._lock:
            return [_entry(row) for row in self._read(ALL, most)]

    def look(self) -> bool:
        """Check for waiting entries, from this process or left behind by others."""
        return bool(self.oldest(1))

    def find(self, job_id: str) -> Entry | None:
        """Read one job's entry."""
        with self._lock:
            return next((_entry(row) for row in self._read(BY_ID, job_id)), None)

    def depth(self) -> int:
        """Count the entries."""
        with self._lock:
            return next((number for (number,) in self._read("SELECT count(*) FROM entry")), 0)

    def delete(self, entries: Sequence[Entry]) -> None:
        """Delete entries that the server has."""
        with self._lock:
            self._use(lambda connection: connection.execute(DELETE, (_numbers(entries),)))

    def note(self, entries: Sequence[Entry], reason: str) -> None:
        """Record why these entries could not be forwarded."""
        with self._lock:
            self._use(lambda connection: connection.execute(NOTE, (reason, _numbers(entries))))
            self.refuses = True

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._file.close()

    # --- with the lock held

    def _write(self, slips: Sequence[SpoolRequest]) -> None:
        """Write all requests in one transaction; after an error, try once more on a new handle."""
        error = self._refusal(slips)
        if error is not None:
            again = self._refusal(slips)
            error = again and StoreUnavailable(str(again), definite=error.definite and again.definite)
        self.waiting = True if error is None else None  # before any caller is answered: later jobs must not overtake
        for request in slips:
            request.error = error and StoreUnavailable(str(error), definite=error.definite)
            request.done = True

    def _refusal(self, slips: Sequence[SpoolRequest]) -> StoreUnavailable | None:
        try:
            self._check_room()
            self._use(lambda connection: _insert(connection, slips))
        except StoreUnavailable as error:
            return error
        return None

    def _check_room(self) -> None:
        place = next(parent for parent in self.path.parents if parent.exists())
        free = shutil.disk_usage(place).free
        if free < ROOM_TO_SPOOL:
            raise StoreUnavailable(
                f"the spool {self.path} takes no more: the disk is low ({data_size(free)} free); free some space",
                definite=True,
            )

    def _use(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        """Run this work in a transaction; after an error the handle is not trusted any more."""
        try:
            done = self._file.transact(work)
        except UNUSABLE as error:
            self.trouble = str(error)
            raise StoreUnavailable(
                f"the spool {self.path} cannot be used: {error}", definite=not self._file.doubtful
            ) from error
        self.trouble = None
        return done

    def _read(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        """Read from the file if it exists; looking must not create it. A file that cannot be read blocks no caller."""
        if not self.path.exists():
            return []
        try:
            return self._use(lambda connection: connection.execute(sql, given).fetchall())
        except StoreUnavailable:  # `trouble` reports it
            return []

    # --- forks: a child must not inherit a handle

    def before_fork(self) -> None:
        """Close the file, and keep every thread away from it."""
        self._lock.acquire()
        self._file.close()

    def after_fork(self) -> None:
        """Let threads use the file again."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start over: the threads that waited in the parent do not exist in this process."""
        self._handed_in.clear()
        self._lock = threading.Lock()


def _insert(connection: apsw.Connection, slips: Sequence[SpoolRequest]) -> None:
    for request in slips:
        batch = connection.execute(NEXT_BATCH).get
        rows = [(job.id, batch, _encode(job).decode(), *request.rest) for job in request.jobs]
        connection.executemany(INSERT, rows)


def _entry(row: tuple[Any, ...]) -> Entry:
    seq, batch, job, boot, elapsed, wall, unsure, tries, reason = row
    return Entry(seq, batch, _decode(job), Stamp(boot, elapsed, wall), bool(unsure), tries, reason)


def _numbers(entries: Sequence[Entry]) -> str:
    return text([entry.seq for entry in entries])
