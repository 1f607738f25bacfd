"""`tx=` on a store in memory: jobs are there once the caller's transaction is committed.

A job of a transaction on SQLite is written into an outbox there, as in production; `drain` and `assert_enqueued` bring
it here. A transaction on PostgreSQL cannot be joined from a store in memory: its job is there at once.
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
"""The libraries whose connections and sessions a store on PostgreSQL takes."""


class TransactionsInMemory(Transactions):
    """Remembers the databases it wrote to, so that what was committed there can be brought here."""

    def __init__(self, sf: Standfast) -> None:
        super().__init__(sf._store, sf._ready, sf.clock)  # noqa: SLF001 - the kit's business, here and below
        self._deferring = sf._transactions  # noqa: SLF001
        self._reception = sf._reception  # noqa: SLF001
        self._databases: dict[Any, None] = {}
        """The files, and the connections to databases in memory, that jobs were written to."""

    async def enqueue(self, tx: object, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write jobs into the caller's SQLite database, or here if theirs is PostgreSQL."""
        tx = unwrapped(tx)
        noted = in_callers_database(tx, self._note)
        if noted is not None:
            await noted
            return await self._deferring.enqueue(tx, jobs)
        _check_library(tx)
        return await self._reception.accept_bulk(jobs)

    def _note(self, theirs: CallersDatabase) -> None:
        """Remember where to look for what is committed."""
        place = outbox.file_of(theirs) or theirs.driver
        if not isinstance(place, str) and not is_sqlite3(place):
            raise ConfigurationError(
                "tx leads to a database in memory over aiosqlite, which only its own thread can read; nothing was "
                "written: give the test a database in a file"
            )
        self._databases[place] = None

    async def bring(self) -> None:
        """Bring here what was committed since."""
        for database in list(self._databases):
            if not isinstance(database, str):
                await self._relay(database)
                continue
            with closing(_connect(database)) as connection:  # it sees what is committed, and nothing else
                await self._relay(connection)

    async def _relay(self, connection: sqlite3.Connection) -> None:
        if _is_free(connection):
            await outbox.Outbox(self._store, self._ready, _InThisThread(connection)).relay()


class _InThisThread(outbox.Table):
    """An outbox that is read where the caller's connection belongs: in the thread of the test."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._theirs = connection

    async def _run(self, work: Callable[[sqlite3.Connection, Any], Any], given: Any) -> Any:
        return work(self._theirs, given)


def _is_free(connection: sqlite3.Connection) -> bool:
    """Tell whether a connection has no transaction open; a closed one, of a database in memory, brings nothing."""
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
    """Refuse what no store takes, so that a test does not pass what production refuses."""
    library = type(tx).__module__.partition(".")[0]
    if library not in KNOWN:
        raise ConfigurationError(
            f"tx must be a connection of sqlite3, or one that a store on PostgreSQL takes ({', '.join(KNOWN)}), not "
            f"{type(tx).__name__}; nothing was written"
        )
