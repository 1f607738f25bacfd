"""The libraries whose connections a caller may pass in, and how each executes statements.

Only psycopg is imported here, because the store itself needs it; callers have imported the others themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn, Protocol

from psycopg import AsyncCursor, Cursor, pq
from psycopg.rows import tuple_row

from standfast.errors import ConfigurationError
from standfast.store.statements import Statement
from standfast.store.steps import Rows

Given = dict[str, Any]

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_JSON = re.compile(r"(\$\d+)::json")


class Blocking(Protocol):
    """A connection that is used by calling it."""

    def check(self) -> None:
        """Refuse a connection that would commit each statement on its own."""

    def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement; return its rows, or the number it wrote."""


class Awaited(Protocol):
    """A connection that is used by awaiting it."""

    async def check(self) -> None:
        """Refuse a connection that would commit each statement on its own."""

    async def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement; return its rows, or the number it wrote."""


def library_of(given: Any) -> Library:
    """Find the library of a connection by its class and the class's ancestors."""
    for kind in type(given).__mro__:
        known = KINDS.get((kind.__module__.partition(".")[0], kind.__name__))
        if known is not None:
            return known(given)
    raise ConfigurationError(
        "tx must be a connection of psycopg, asyncpg or SQLAlchemy to the store's database, or a connection of sqlite3 "
        f"to one of yours, not {type(given).__name__}; nothing was written"
    )


def _refuse() -> NoReturn:
    raise ConfigurationError(
        "tx is in autocommit mode and no transaction is open, so nothing could be rolled back; nothing was written: "
        "begin a transaction first, or enqueue without tx="
    )


# --- statements in the form each library takes


@cache
def named_parameters(sql: str) -> str:
    """Write a statement with `%(name)s` parameters."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


@cache
def numbered_parameters(sql: str) -> tuple[str, list[str]]:
    """Write a statement with `$1`, `$2`…, and return their names. JSON is sent as text: the driver may re-encode it."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return _JSON.sub(r"\1::text::json", _PARAMETER.sub(number, sql)), names


# --- psycopg


class Psycopg:
    """A connection of psycopg. Its own row and cursor types do not matter."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check(self) -> None:
        """Refuse autocommit outside a transaction. Without autocommit, psycopg begins one with the first statement."""
        _check_psycopg(self._connection)

    def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement."""
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(named_parameters(statement.sql).encode(), given)
            return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]


class AwaitedPsycopg:
    """An async connection of psycopg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def check(self) -> None:
        """Refuse autocommit outside a transaction."""
        _check_psycopg(self._connection)

    async def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement."""
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(named_parameters(statement.sql).encode(), given)
            return await cursor.fetchall() if cursor.description else [(cursor.rowcount,)]


def _check_psycopg(connection: Any) -> None:
    if connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise ConfigurationError(
            "tx is in pipeline mode, and its answers would come late; nothing was written: leave it"
        )
    if connection.autocommit and connection.info.transaction_status == pq.TransactionStatus.IDLE:
        _refuse()


# --- asyncpg


class Asyncpg:
    """A connection of asyncpg, or one borrowed from its pool."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def check(self) -> None:
        """Refuse a connection without an open transaction: asyncpg begins none on its own."""
        if not self._connection.is_in_transaction():
            _refuse()

    async def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement."""
        sql, names = numbered_parameters(statement.sql)
        values = [given[name] for name in names]
        if statement.gives_rows:
            return [tuple(row) for row in await self._connection.fetch(sql, *values)]
        tag = await self._connection.execute(sql, *values)
        return [(int(tag.rpartition(" ")[2]),)]


# --- SQLAlchemy


class SqlAlchemy:
    """A connection of SQLAlchemy, or a session, whose connection takes part in its transaction."""

    def __init__(self, given: Any) -> None:
        self._given = given() if type(given).__name__ == "scoped_session" else given
        """A scoped session belongs to this thread, so it is looked up here, before another thread uses it."""
        self._connection: Any = None

    def check(self) -> None:
        """Refuse autocommit. Without autocommit, SQLAlchemy begins a transaction with the first statement."""
        self._connection = _connection_of(self._given)
        _check_sqlalchemy(self._connection)

    def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement."""
        return _rows(self._connection.exec_driver_sql(*_for_driver(self._connection, statement, given)))


class AwaitedSqlAlchemy:
    """An async connection or session of SQLAlchemy."""

    def __init__(self, given: Any) -> None:
        self._given = given() if type(given).__name__ == "async_scoped_session" else given
        self._connection: Any = None

    async def check(self) -> None:
        """Refuse autocommit."""
        found = _connection_of(self._given)
        self._connection = found if found is self._given else await found
        _check_sqlalchemy(self._connection.sync_connection)

    async def ask(self, statement: Statement, given: Given) -> Rows:
        """Execute one statement."""
        prepared = _for_driver(self._connection.sync_connection, statement, given)
        return _rows(await self._connection.exec_driver_sql(*prepared))


def _connection_of(given: Any) -> Any:
    """Return a session's connection, or a connection itself, whose own `connection` attribute is the driver's."""
    return given if hasattr(given, "exec_driver_sql") else given.connection()


def _check_sqlalchemy(connection: Any) -> None:
    if connection.dialect.name != "postgresql" or connection.dialect.paramstyle not in {"pyformat", "numeric_dollar"}:
        raise ConfigurationError(
            f"tx is a connection of SQLAlchemy to {connection.dialect.name} over {connection.dialect.driver}, and must "
            "be one to the store's own PostgreSQL, over psycopg or asyncpg; nothing was written"
        )
    if connection.connection.dbapi_connection.autocommit:
        _refuse()


def _for_driver(connection: Any, statement: Statement, given: Given) -> tuple[str, Any]:
    if connection.dialect.paramstyle == "pyformat":
        return named_parameters(statement.sql), given
    sql, names = numbered_parameters(statement.sql)
    return sql, tuple(given[name] for name in names)


def _rows(result: Any) -> Rows:
    return [tuple(row) for row in result] if result.returns_rows else [(result.rowcount,)]


Library = Psycopg | AwaitedPsycopg | Asyncpg | SqlAlchemy | AwaitedSqlAlchemy
KINDS: dict[tuple[str, str], Callable[[Any], Library]] = {
    ("psycopg", "Connection"): Psycopg,
    ("psycopg", "AsyncConnection"): AwaitedPsycopg,
    ("asyncpg", "Connection"): Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): Asyncpg,
    ("sqlalchemy", "Connection"): SqlAlchemy,
    ("sqlalchemy", "Session"): SqlAlchemy,
    ("sqlalchemy", "scoped_session"): SqlAlchemy,
    ("sqlalchemy", "AsyncConnection"): AwaitedSqlAlchemy,
    ("sqlalchemy", "AsyncSession"): AwaitedSqlAlchemy,
    ("sqlalchemy", "async_scoped_session"): AwaitedSqlAlchemy,
}
