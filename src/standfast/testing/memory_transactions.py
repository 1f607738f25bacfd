"""`tx=` on a store in memory: jobs exist once the caller's transaction is committed.

A job in a SQLite transaction is written into an outbox there, as in production; `drain` and `assert_enqueued` relay it
to the store. A store in memory cannot join a PostgreSQL transaction: such a job exists at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from standfast.application import Standfast
from standfast.errors import ConfigurationError
from standfast.job import NewJob, Receipt
from standfast.wings.relay import outbox
from standfast.wings.relay.callers_database import CallersDatabase, in_callers_database, is_sqlite3, unwrapped
from standfast.wings.relay.transactions import Transactions

if TYPE_CHECKING:
    import sqlite3


KNOWN = ("psycopg", "asyncpg", "sqlalchemy")
"""The libraries whose connections and sessions a PostgreSQL store accepts."""


class TransactionsInMemory(Transactions):
    """Remembers the databases that it wrote to, so that jobs committed there can be relayed."""

    def __init__(self, sf: Standfast) -> None:
        super().__init__(sf._store, sf._ready, sf.clock)  # noqa: SLF001 - the kit's business, here and below
        self._deferring = sf._transactions  # noqa: SLF001
        self._reception = sf._reception  # noqa: SLF001
        self._databases: dict[Any, None] = {}
        """The files, and the connections to databases in memory, that jobs were written to."""

    async def enqueue(self, tx: object, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write jobs into the caller's SQLite database, or here if it is PostgreSQL."""
        tx = unwrapped(tx)
        noted = in_callers_database(tx, self._note)
        if noted is not None:
            await noted
            return await self._deferring.enqueue(tx, jobs)
        _check_library(tx)
        return await self._reception.accept_bulk(jobs)

    def _note(self, theirs: CallersDatabase) -> None:
        """Remember where to look for committed jobs."""
        place = outbox.file_of(theirs) or theirs.driver
        if not isinstance(place, str) and not is_sqlite3(place):
            raise ConfigurationError(
                "tx leads to a database in memory over aiosqlite, which only its own thread can read; nothing was "
                "written: give the test a database in a file"
            )
        self._databases[place] = None

    async def bring(self) -> None:
        """Relay what was committed since the last call."""
        for database in list(self._databases):
            if not isinstance(database, str):
                await self._relay(database)
                continue
            with closing(_connect(database)) as connection:  # it sees only what is committed
                await self._relay(connection)

    async def _relay(self, connection: sqlite3.Connection) -> None:
        if _is_free(connection):
            await outbox.Outbox(self._store, self._ready, _InThisThread(connection)).relay()


class _InThisThread(outbox.Table):
    """An outbox read in the thread that owns the caller's connection: the test's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._theirs = connection

    async def _run(self, work: Callable[[sqlite3.Connection, Any], Any], given: Any) -> Any:
        return work(self._theirs, given)


def _is_free(connection: sqlite3.Connection) -> bool:
    """Return whether a connection has no open transaction; a closed one, to memory, has nothing to relay."""
    import sqlite3  # noqa: PLC0415 - loaded already, by the caller's connection

    try:
        return not connection.in_transaction
    except sqlite3.ProgrammingError as error:
        if "closed" not in str(error):  # it belongs to another thread
            raise
        return False


def _connect(path: str) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415 - loaded already, by the caller's connection

    return sqlite3.connect(path)


def _check_library(tx: object) -> None:
    """Refuse what no store accepts, so that a test cannot pass with what production refuses."""
    library = type(tx).__module__.partition(".")[0]
    if library not in KNOWN:
        raise ConfigurationError(
            f"tx must be a connection of sqlite3, or one that a store on PostgreSQL takes ({', '.join(KNOWN)}), not "
            f"{type(tx).__name__}; nothing was written"
        )
