"""Enqueue inside a transaction of the caller's own SQLite database: written there first, brought here by a relay.

The row is in their database exactly if they commit. The relay reads it through a connection of theirs, hands the job
to the store under the id it was given when it was written, and only then deletes the row: a crash in between hands
it over again, and the store knows it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import msgspec

from standfast.decide.triage import triage
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.failure import Failure, Landed, reason
from standfast.job import HTTP, NewJob, Receipt
from standfast.queue.payload import fingerprint
from standfast.store.births import Burial
from standfast.store.orders import Conflict
from standfast.store.store import Store

if TYPE_CHECKING:  # whoever has no such database need not load a second SQLite
    import sqlite3

log = logging.getLogger("standfast.queue")

Connect = Callable[[], "sqlite3.Connection"]

RELAY_EVERY = 0.5
"""Seconds between two looks into the outbox: nobody tells us of a commit in another database."""
ROWS_AT_ONCE = 100

CREATE = (
    "CREATE TABLE IF NOT EXISTS standfast_outbox "
    "(seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, job TEXT NOT NULL)"
)
IS_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'standfast_outbox'"
READ = "SELECT seq, job FROM standfast_outbox WHERE seq > ? ORDER BY seq LIMIT ?"

_decode = msgspec.json.Decoder(NewJob).decode


def defer(connection: object, job: NewJob, wall: float) -> Receipt:
    """Write a job into the caller's database, through the caller's connection. The commit is the caller's too."""
    theirs = _sqlite_connection(connection)
    job = _recognizable(job)
    if job.delay and job.at is None:  # it counts from now, not from when the relay comes by
        job = msgspec.structs.replace(job, delay=0.0, at=wall + job.delay)
    theirs.execute(CREATE)
    row = (job.id, msgspec.json.encode(job).decode())
    theirs.execute("INSERT INTO standfast_outbox (id, job) VALUES (?, ?)", row)
    return Receipt(job.id, "deferred", None)


def _sqlite_connection(given: object) -> sqlite3.Connection:
    library = sys.modules.get("sqlite3")  # whoever has a connection has loaded it
    if library is None or not isinstance(given, library.Connection):
        raise ConfigurationError(f"tx must be a connection of sqlite3, not {type(given).__name__}")
    return given  # type: ignore[no-any-return]


def _recognizable(job: NewJob) -> NewJob:
    """Have a job recognized when it is handed over twice: by its id, or by a key once it is folded into another."""
    if job.thread_key is None or job.idempotency_key is not None:
        return job
    if job.handler == HTTP:
        raise ConfigurationError("an HTTP job with thread_key and tx needs an idempotency_key too; nothing was written")
    return msgspec.structs.replace(job, idempotency_key=job.id, fingerprint=fingerprint(job.handler, job.payload))


class Row(NamedTuple):
    """A job that waits in the outbox."""

    seq: int
    job: NewJob


class Looping(Protocol):
    """A background loop."""

    def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


Loops = Callable[[str, float, Callable[[], Awaitable[None]]], Looping]


class Outbox:
    """Relays a database's outbox: `async with` does so in the background, `relay` once. One relay per database will do.

    A job whose key belongs to another payload becomes a letter, `idempotency_conflict`. One whose queue is full waits
    in the outbox, and what follows it in that queue waits behind it.
    """

    def __init__(
        self, store: Store, ready: Callable[[], Awaitable[None]], connect: Connect, loops: Loops, every: float
    ) -> None:
        self._store = store
        self._ready = ready
        self._table = Table(connect)
        self._loop = loops("outbox", every, self._look)

    async def __aenter__(self) -> Self:
        """Start relaying."""
        self._loop.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop relaying; what is left waits in the outbox."""
        await self.close()

    async def close(self) -> None:
        """Stop, and let go of the connection."""
        await self._loop.stop()
        await self._table.close()

    async def _look(self) -> None:
        try:
            await self.relay()
        except StoreUnavailable as error:
            log.warning("the outbox cannot be relayed now and will be tried again: %s", error)

    async def relay(self) -> int:
        """Hand over everything that is committed; give how many jobs left the outbox."""
        await self._ready()
        relayed, seen, full = 0, 0, set[str]()
        while rows := await self._table.read(seen):
            done = await self._hand_over([row for row in rows if row.job.queue not in full])
            left = {row.seq for row in rows} - set(done)
            full |= {row.job.queue for row in rows if row.seq in left}
            await self._table.delete(done)
            relayed, seen = relayed + len(done), rows[-1].seq
        return relayed

    async def _hand_over(self, rows: Sequence[Row]) -> list[int]:
        """Store jobs; give the rows that are done with."""
        if not rows:
            return []
        answers = await self._store.enqueue([row.job for row in rows])
        done = []
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, Receipt) or (isinstance(answer, Conflict) and await self._bury(row.job, answer)):
                done.append(row.seq)
        return done

    async def _bury(self, job: NewJob, conflict: Conflict) -> bool:
        told = f"key {job.idempotency_key!r} belongs to job {conflict.job_id} with another payload"
        why = reason("idempotency_conflict")
        failure = Failure(cls=why.cls, landed=Landed.NO, reason_code=why.code, message=told, advice=why.advice)
        return await self._store.bury(Burial(job, failure, triage(failure)))


class Table:
    """The outbox in the user's database, read and emptied in one thread, through a connection of theirs."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="standfast-outbox")

    async def read(self, after: int) -> list[Row]:
        """Read the oldest jobs behind a number."""
        return [Row(seq, _decode(job)) for seq, job in await self._run(_read, after)]

    async def delete(self, numbers: Sequence[int]) -> None:
        """Delete what was handed over."""
        if numbers:
            await self._run(_delete, numbers)

    async def close(self) -> None:
        """Let go of the connection; the next use makes another."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)

    async def _run(self, work: Callable[[sqlite3.Connection, Any], Any], given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._use, work, given)

    def _use(self, work: Callable[[sqlite3.Connection, Any], Any], given: Any) -> Any:
        """Do the work; after an error the connection is not trusted any more."""
        with ExitStack() as broken:
            broken.callback(self._let_go)
            self._connection = self._connection or self._connect()
            done = work(self._connection, given)
            broken.pop_all()
        return done

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _read(connection: sqlite3.Connection, after: int) -> list[tuple[int, str]]:
    there = connection.execute(IS_THERE).fetchone()
    rows = connection.execute(READ, (after, ROWS_AT_ONCE)).fetchall() if there else []
    connection.rollback()  # some connections begin a transaction by themselves, and it would stand in the way
    return rows


def _delete(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    connection.executemany("DELETE FROM standfast_outbox WHERE seq = ?", [(number,) for number in numbers])
    connection.commit()
