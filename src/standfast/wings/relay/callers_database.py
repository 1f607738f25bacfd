"""A caller's own SQLite database, through any library: `sqlite3`, SQLAlchemy or Django.

None of these libraries is imported here: a caller who passes a connection has loaded its library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from standfast.concurrency.flows import Answer, SyncOrAsync
from standfast.errors import ConfigurationError

if TYPE_CHECKING:  # a caller without such a database need not load a second SQLite
    import sqlite3

T = TypeVar("T")

BLOCKING = ("Connection", "Session", "scoped_session")
"""SQLAlchemy classes whose calls block."""
AWAITED = ("AsyncConnection", "AsyncSession", "async_scoped_session")
"""SQLAlchemy classes whose calls are awaited."""
SQLITE = "sqlite"


class Sqlite3:
    """A `sqlite3` connection, whatever its row factory is."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.driver: Any = connection

    def ask(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        """Execute one statement; return its rows."""
        cursor = self.driver.cursor()
        cursor.row_factory = None  # their connection may turn rows into anything
        rows: list[Any] = cursor.execute(sql, given).fetchall()
        return rows


class SqlAlchemy:
    """An SQLAlchemy connection to SQLite, over `sqlite3` or aiosqlite: its transaction is SQLAlchemy's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.driver: Any = connection.connection.driver_connection
        self.ask("SELECT 1")  # the first statement makes SQLAlchemy begin, if it begins at all
        _check_transaction(self.driver)

    def ask(self, sql: str, given: Sequence[Any] = ()) -> list[Any]:
        """Execute one statement; return its rows."""
        result = self._connection.exec_driver_sql(sql, tuple(given))
        return [tuple(row) for row in result] if result.returns_rows else []


CallersDatabase = Sqlite3 | SqlAlchemy
Use = Callable[[CallersDatabase], T]


def _check_transaction(driver: Any) -> None:
    """Refuse a sqlite3 or aiosqlite connection in which no statement begins a transaction, and none is open."""
    by_itself = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
    if by_itself and not driver.in_transaction:
        refuse_autocommit()


def refuse_autocommit() -> NoReturn:
    """Refuse a connection that would commit each statement separately."""
    raise ConfigurationError(
        "tx is in autocommit mode and no transaction is open, so nothing could be rolled back; nothing was written: "
        "begin a transaction first, or enqueue without tx="
    )


def unwrapped(tx: Any) -> Any:
    """Return the driver's connection under Django's, in whose transaction we write; anything else unchanged."""
    if not _is_djangos(tx):
        return tx
    if not tx.in_atomic_block:
        raise ConfigurationError(
            "tx is Django's connection, and no transaction is open, so nothing could be rolled back; nothing was "
            "written: call this inside transaction.atomic(), or enqueue without tx="
        )
    tx.ensure_connection()
    return tx.connection


def _is_djangos(tx: object) -> bool:
    """Recognise `connections["default"]`, and `django.db.connection`, which stands for it."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(tx).__mro__}
    return not kinds.isdisjoint(
        {("django.db.backends.base.base", "BaseDatabaseWrapper"), ("django.utils.connection", "ConnectionProxy")}
    )


def is_sqlite3(given: object) -> bool:
    """Return whether this is a sqlite3 connection, without loading sqlite3."""
    return any(kind.__module__ == "sqlite3" for kind in type(given).__mro__)


def sqlite3_connection(given: object) -> Sqlite3:
    """Check and wrap a sqlite3 connection."""
    library = sys.modules.get("sqlite3")  # a caller with a connection has loaded it
    if library is None or not isinstance(given, library.Connection):
        raise ConfigurationError(f"tx must be a connection of sqlite3, not {type(given).__name__}")
    return Sqlite3(given)


def _in_transaction(tx: object) -> Sqlite3:
    database = sqlite3_connection(tx)
    _check_transaction(database.driver)
    return database


def in_callers_database(tx: Any, use: Use[T]) -> Answer[T] | None:
    """Run `use` on a caller's SQLite database, in their transaction; None if `tx` leads to no such database."""
    if is_sqlite3(tx):
        return _in_this_thread(lambda: use(_in_transaction(tx)))
    kind = _kind_of_sqlalchemy(tx)
    if kind is None or _dialect_of(tx) != SQLITE:
        return None
    return _on_awaited(tx, use) if kind in AWAITED else _in_this_thread(lambda: use(SqlAlchemy(_connection_of(tx))))


def _kind_of_sqlalchemy(tx: object) -> str | None:
    names = (kind.__name__ for kind in type(tx).__mro__ if kind.__module__.partition(".")[0] == "sqlalchemy")
    return next((name for name in names if name in (*BLOCKING, *AWAITED)), None)


def _connection_of(tx: Any) -> Any:
    """Return a session's connection, or the connection itself, whose own `connection` is the driver's."""
    return tx if hasattr(tx, "exec_driver_sql") else tx.connection()


def _dialect_of(tx: Any) -> str:
    """Name the kind of database without connecting to it, which could block the loop."""
    bound = tx if hasattr(tx, "exec_driver_sql") else tx.get_bind()
    return str(bound.dialect.name)


def _on_awaited(tx: Any, use: Use[T]) -> Answer[T]:
    async def awaited() -> T:
        found = _connection_of(tx)
        connection = found if found is tx else await found
        used: T = await connection.run_sync(lambda beneath: use(SqlAlchemy(beneath)))
        return used

    return SyncOrAsync(awaited, _refuse_to_block)


def _refuse_to_block() -> NoReturn:
    raise ConfigurationError("tx is a connection to be awaited; nothing was written: await sf.enqueue(…, tx=…) instead")


def _in_this_thread(work: Callable[[], T]) -> Answer[T]:
    """Do the work in the calling thread, with a loop or without: a SQLite connection belongs to one thread."""

    async def awaited() -> T:
        return work()

    return SyncOrAsync(awaited, work)
