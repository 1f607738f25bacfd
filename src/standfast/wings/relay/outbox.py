"""Enqueue inside a transaction of the caller's own SQLite database: written there first, brought here by a relay.

The row is in their database exactly if they commit. The relay reads it through a connection of theirs, stores the job
under the id it got when it was written, and only then deletes the row. After a crash in between, or if it cannot delete
the row, it hands the job over again, and the store recognises it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.concurrency.loops import Loop
from standfast.concurrency.threads import Threads
from standfast.errors import ConfigurationError, StandfastError, StoreMoved, StoreUnavailable
from standfast.job import HTTP, NewJob, Receipt
from standfast.printable import printable
from standfast.spine.claim_requests import Conflict
from standfast.spine.payload import canonical, fingerprint
from standfast.store.scripts import Write
from standfast.store.store import Store
from standfast.wings.letters.dead_jobs import dead_job, in_conflict, refused
from standfast.wings.letters.insert_dead import DeadJob
from standfast.wings.relay.callers_database import CallersDatabase, Sqlite3, is_sqlite3
from standfast.wings.relay.outbox_marker import OutboxMarker
from standfast.wings.relay.relay import Relay, hand_over
from standfast.wings.relay.scripts import Forward, Unforwardable, bring, bury
from standfast.wings.relay.stuck import DatabaseFailed, Trouble

if TYPE_CHECKING:  # a caller without such a database need not load a second SQLite
    import sqlite3

log = logging.getLogger("standfast.queue")

Connect = Callable[[], "sqlite3.Connection"]

RELAY_EVERY = 0.5
"""Seconds between two looks into the outbox: a commit in another database sends no signal."""
ROWS_AT_ONCE = 100
UNREADABLE = "standfast_outbox"
"""The queue, and the handler, of letters made from unreadable rows."""
LONGEST_ROW = 10_000
"""How many characters of its row such a letter keeps."""

CREATE = (
    "CREATE TABLE IF NOT EXISTS standfast_outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
    "job TEXT NOT NULL, queue TEXT, key TEXT, fingerprint TEXT)"
)
CREATE_INDEX = "CREATE INDEX IF NOT EXISTS standfast_outbox_key ON standfast_outbox (queue, key) WHERE key IS NOT NULL"
OWNER = "SELECT id, fingerprint FROM standfast_outbox WHERE queue = ? AND key = ? ORDER BY seq LIMIT 1"
INSERT = "INSERT INTO standfast_outbox (id, job, queue, key, fingerprint) VALUES (?, ?, ?, ?, ?)"
IS_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'standfast_outbox'"
DATABASES = "PRAGMA database_list"
READ = "SELECT seq, id, job FROM standfast_outbox WHERE seq > ? ORDER BY seq LIMIT ?"
FIND = "SELECT seq, id, job FROM standfast_outbox WHERE id = ?"
COUNT = "SELECT count(*), (SELECT id FROM standfast_outbox ORDER BY seq LIMIT 1), NULL FROM standfast_outbox"

_decode = msgspec.json.Decoder(NewJob).decode


def defer(store: Store, caller: CallersDatabase, jobs: Sequence[NewJob], wall: float) -> list[Receipt | Conflict]:
    """Write jobs into the caller's database, through the caller's connection. The caller commits.

    A key that already waits there answers as it would in the store. If it has another payload, nothing is written.
    """
    _check_not_ours(store, caller)
    jobs = [_recognizable(_from_now(job, wall)) for job in jobs]
    caller.ask(CREATE)
    caller.ask(CREATE_INDEX)
    known = [_answer(caller, job) for job in jobs] if len(jobs) > 1 else []
    if any(isinstance(answer, Conflict) for answer in known):
        return [answer or Receipt(job.id, "deferred", None) for job, answer in zip(jobs, known, strict=True)]
    return [_write(caller, job) for job in jobs]


def _from_now(job: NewJob, wall: float) -> NewJob:
    """Make a delay count from now, not from when the relay comes by."""
    return msgspec.structs.replace(job, delay=0.0, at=wall + job.delay) if job.delay and job.at is None else job


def _answer(caller: CallersDatabase, job: NewJob) -> Receipt | Conflict | None:
    """Return the answer for a key that already waits; None if it does not."""
    for owner, its_print in caller.ask(OWNER, (job.queue, job.idempotency_key)):
        return Receipt(owner, "duplicate", None) if its_print == job.fingerprint else Conflict(owner)
    return None


def _write(caller: CallersDatabase, job: NewJob) -> Receipt | Conflict:
    known = _answer(caller, job)  # again: jobs that are written together may share a key
    if known is not None:
        return known
    row = (job.id, msgspec.json.encode(job).decode(), job.queue, job.idempotency_key, job.fingerprint)
    caller.ask(INSERT, row)
    return Receipt(job.id, "deferred", None)


def file_of(theirs: CallersDatabase) -> str | None:
    """Return the file of a caller's database; None if it is in memory."""
    files = (os.fsdecode(file) for _, name, file in theirs.ask(DATABASES) if name == "main")
    return next(files, None) or None


def _check_not_ours(store: Store, caller: CallersDatabase) -> None:
    """Refuse a connection to the store itself: two SQLite libraries on one file drop each other's locks."""
    for _, _, file in caller.ask(DATABASES):
        if store.location.is_file(os.fsdecode(file)):
            raise ConfigurationError(
                f"{os.fsdecode(file)} is the store itself, which takes jobs without tx=; nothing was written: "
                "close that connection, and pass one to a database of your own"
            )


def _recognizable(job: NewJob) -> NewJob:
    """Make a job recognisable if it is handed over twice: by its id, or by a key if it may be folded into another."""
    if job.thread_key is None or job.idempotency_key is not None:
        return job
    if job.handler == HTTP:
        raise ConfigurationError("an HTTP job with thread_key and tx needs an idempotency_key too; nothing was written")
    return msgspec.structs.replace(job, idempotency_key=job.id, fingerprint=fingerprint(job.handler, job.payload))


class Row(NamedTuple):
    """A job in the outbox, and what is wrong with its row if it could not be read."""

    seq: int
    job: NewJob
    wrong: str | None = None


class Outbox:
    """Relays a database's outbox: `async with` does so in the background, `relay` once. One relay per database will do.

    A job whose key belongs to another payload becomes a letter, `idempotency_conflict`. A row that is not a job becomes
    one too, `parse_error`, in a queue of its own. A job whose queue is full waits in the outbox, and later jobs of that
    queue wait behind it.
    """

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        table: Table,
        every: float = RELAY_EVERY,
        marker: OutboxMarker | None = None,
    ) -> None:
        self._store = store
        self._ready = ready
        self.table = table
        self._marker = marker
        self._refused: set[int] = set()
        self._trouble = Trouble(store)
        self._every = every
        self._loop = self.loop()

    def loop(self) -> Loop:
        """Return a loop that looks every so many seconds, once it is started."""
        return Loop("outbox", self._every, self._look)

    async def __aenter__(self) -> Self:
        """Start relaying."""
        self._loop.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop relaying; the remaining jobs wait in the outbox."""
        await self.close()

    async def close(self) -> None:
        """Stop relaying, and close the connection."""
        await self._loop.stop()
        await self.table.close()

    async def _look(self) -> None:
        try:
            await self._relay()
        except StoreMoved:
            raise
        except StoreUnavailable as error:
            log.warning("the outbox cannot be relayed now and will be tried again: %s", error)
        except DatabaseFailed as error:
            await self._trouble.note(self.table.database, error.why)
        else:
            await self._trouble.over()

    async def relay(self) -> int:
        """Hand over every committed job; return how many left the outbox."""
        try:
            return await self._relay()
        except DatabaseFailed as error:
            raise error.why from None

    async def _relay(self) -> int:
        await self._ready()
        began = time.monotonic()
        rows = OutboxRows(self._store, self.table, self._refused)
        await Relay(self._store, rows).run()
        if self._marker is not None:
            self._marker.relayed(self.table.file, began, brought=bool(rows.left))
        return rows.left


class OutboxRows:
    """The outbox as a source, read once from its beginning to its end."""

    def __init__(self, store: Store, table: Table, refused_before: set[int]) -> None:
        self._store = store
        self._table = table
        self._refused = refused_before
        """The rows that the store refused, in this or an earlier reading."""
        self._seen = 0
        self._full: set[str] = set()
        self.left = 0
        """How many rows left the outbox."""

    @property
    def script(self) -> Write[Forward, bool]:
        """The script that stores jobs accepted just now: if the disk is low, they stay in the outbox."""
        return bring

    async def next_entries(self) -> Sequence[Row]:
        """Return the next rows whose queues have room; a row that is not a job becomes a letter at once."""
        while rows := await self._table.read(self._seen):
            self._seen = rows[-1].seq
            for row in rows:
                if row.wrong is not None:
                    await self._bury(row, dead_job(row.job, "parse_error", row.wrong, self._store.approval_ttl))
            jobs = [row for row in rows if row.wrong is None and row.job.queue not in self._full]
            if jobs:
                return jobs
        return []

    def forward(self, row: Row) -> Forward:
        """Store the job as of now; it waits in the outbox while its queue is full."""
        return Forward(row.job, inf, partial(in_conflict, ttl=self._store.approval_ttl), limited=True)

    def apart(self, rows: Sequence[Row]) -> Iterator[list[Row]] | None:
        """Split into single rows; behind a row whose queue is full, the rows of that queue wait too."""
        return ([row] for row in rows if row.job.queue not in self._full) if len(rows) > 1 else None

    async def settle(self, rows: Sequence[Row], here: Sequence[bool]) -> None:
        """Delete the rows that are in the store; the others wait for room in their queues."""
        done = [row.seq for row, arrived in zip(rows, here, strict=True) if arrived]
        self._full |= {row.job.queue for row, arrived in zip(rows, here, strict=True) if not arrived}
        await self._table.delete(done)
        self.left += len(done)

    async def refuse(self, rows: Sequence[Row], error: Unforwardable) -> None:
        """Leave a job alone that the store cannot take; if it is refused again, make it a letter."""
        for row in rows:
            if row.seq not in self._refused:
                self._refused.add(row.seq)
                log.error("the store refuses row %d of the outbox, which is tried once more: %s", row.seq, error)
                continue
            try:
                await self._bury(row, refused(row.job, str(error), self._store.approval_ttl))
            except Unforwardable as also:
                log.debug("row %d of the outbox cannot even become a letter: %s", row.seq, also)

    async def _bury(self, row: Row, burial: DeadJob) -> None:
        [buried] = await hand_over(self._store, bury, [burial])
        if buried:
            await self.settle([row], [True])
            about = {"job_id": row.job.id, "queue": row.job.queue, "handler": row.job.handler}
            what = "row %d of the outbox is no job for the store and became the letter %s"
            log.error(what, row.seq, row.job.id, extra=about)


class Table:
    """The outbox in the user's database, read and emptied by one thread, through a connection of theirs."""

    def __init__(self, store: Store, connect: Connect) -> None:
        if not callable(connect) or is_sqlite3(connect):
            raise ConfigurationError(
                f"connect must be a function that opens your database, such as lambda: sqlite3.connect('app.db'), "
                f"not {connect!r}: the relay reads it in a separate thread"
            )
        self._store = store
        self.file: str | None = None
        """The file of the database, once it was opened."""
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self.database = "a database that cannot be opened"
        """Its file, once it was opened."""
        self._inherited: list[sqlite3.Connection | None] = []
        """Connections of a parent process: SQLite does not even allow a child to close them."""
        self._thread = Threads(1, "standfast-outbox")
        self._process = os.getpid()

    async def read(self, after: int) -> list[Row]:
        """Read the oldest jobs after a number."""
        return [_row(*found) for found in await self._run(_read, (READ, after, ROWS_AT_ONCE))]

    async def find(self, job_id: str) -> Row | None:
        """Read one job that is committed and not handed over; raise if the outbox cannot be read."""
        self._begin_in_child()
        look = partial(self._use, _read, (FIND, job_id))
        rows = await asyncio.wrap_future(self._thread.submit(call_guarded, look, _refuse_unread))
        return next((_row(*found) for found in rows), None)

    async def count(self) -> tuple[int, str | None, str | None]:
        """Count the jobs that are committed and not handed over; return also the oldest one's id, or the problem."""
        self._begin_in_child()
        look = partial(self._use, _read, (COUNT,))
        rows = await asyncio.wrap_future(self._thread.submit(call_guarded, look, lambda error: [(0, None, str(error))]))
        return next(iter(rows), (0, None, None))

    async def delete(self, numbers: Sequence[int]) -> None:
        """Delete the rows that were handed over."""
        if numbers:
            await self._run(_delete, numbers)

    async def close(self) -> None:
        """Close the connection; the next use opens another."""
        self._begin_in_child()
        await asyncio.wrap_future(self._thread.submit(self._let_go))

    async def _run(self, work: Callable[[sqlite3.Connection, Any], Any], given: Any) -> Any:
        self._begin_in_child()
        use = partial(self._use, work, given)
        return await asyncio.wrap_future(self._thread.submit(call_guarded, use, _refuse_failed))

    def _begin_in_child(self) -> None:
        """Start afresh after a fork: a child has its parent's connection, but not its thread."""
        if self._process != os.getpid():
            self._inherited.append(self._connection)
            self._connection, self._process = None, os.getpid()
            self._thread = Threads(1, "standfast-outbox")

    def _use(self, work: Callable[[sqlite3.Connection, Any], Any], given: Any) -> Any:
        """Do the work; after an error the connection is no longer trusted."""
        with ExitStack() as broken:
            broken.callback(self._let_go)
            if self._connection is None:
                self._connection = self._connect()
                _check_not_ours(self._store, Sqlite3(self._connection))
                self.file = file_of(Sqlite3(self._connection))
                self.database = self.file or "a database in memory"
            done = work(self._connection, given)
            broken.pop_all()
        return done

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _refuse_failed(error: Exception) -> NoReturn:
    if isinstance(error, StandfastError):
        raise error
    raise DatabaseFailed(error) from error


def _refuse_unread(error: Exception) -> NoReturn:
    if isinstance(error, StandfastError):
        raise error
    raise StoreUnavailable(
        f"the store has no such job, and the outbox that may have it cannot be read: {error}", definite=True
    ) from error


def _row(seq: int, job_id: object, text: Any) -> Row:
    """Read a row. One that is not a job must not block the rows behind it."""
    try:
        return Row(seq, _decode(text))
    except (msgspec.DecodeError, TypeError) as error:
        kept = canonical(printable(str(text)[:LONGEST_ROW]))
        return Row(seq, NewJob(id=str(job_id), queue=UNREADABLE, handler=UNREADABLE, payload=kept), str(error))


def _read(connection: sqlite3.Connection, query: tuple[Any, ...]) -> list[Any]:
    theirs = Sqlite3(connection)
    sql, *given = query
    rows = theirs.ask(sql, given) if theirs.ask(IS_THERE) else []
    connection.rollback()  # some connections begin a transaction implicitly, which would be in the way
    return rows


def _delete(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    connection.executemany("DELETE FROM standfast_outbox WHERE seq = ?", [(number,) for number in numbers])
    connection.commit()
