"""Connections a user has of their own, of every library there is, behind one face: do, read, commit, roll back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as awaited

from tests.postgres import split_schema


class Blocking:
    """One whose calls block: psycopg's, or SQLAlchemy's connection or session."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx

    async def do(self, sql: str) -> Any:
        text = sql if isinstance(self.tx, psycopg.Connection) else sqlalchemy.text(sql)
        return self.tx.execute(text)

    async def read(self, sql: str) -> Any:
        return (await self.do(sql)).fetchone()[0]

    async def commit(self) -> None:
        self.tx.commit()

    async def roll_back(self) -> None:
        self.tx.rollback()


class Awaited:
    """One to be awaited."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx

    async def do(self, sql: str) -> Any:
        return await self.tx.execute(sql if isinstance(self.tx, psycopg.AsyncConnection) else sqlalchemy.text(sql))

    async def read(self, sql: str) -> Any:
        found = await self.do(sql)
        row = await found.fetchone() if isinstance(self.tx, psycopg.AsyncConnection) else found.fetchone()
        return row[0]

    async def commit(self) -> None:
        await self.tx.commit()

    async def roll_back(self) -> None:
        await self.tx.rollback()


class Asyncpg:
    """Asyncpg's, in a transaction of its own."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self._transaction: Any = None

    async def begin(self) -> None:
        self._transaction = self.tx.transaction()
        await self._transaction.start()

    async def do(self, sql: str) -> Any:
        return await self.tx.execute(sql)

    async def read(self, sql: str) -> Any:
        return await self.tx.fetchval(sql)

    async def commit(self) -> None:
        await self._transaction.commit()
        await self.begin()

    async def roll_back(self) -> None:
        await self._transaction.rollback()
        await self.begin()


Theirs = Blocking | Awaited | Asyncpg


@asynccontextmanager
async def with_psycopg(url: str) -> AsyncIterator[Theirs]:
    with psycopg.connect(url) as connection:
        yield Blocking(connection)


@asynccontextmanager
async def with_async_psycopg(url: str) -> AsyncIterator[Theirs]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Awaited(connection)


@asynccontextmanager
async def with_asyncpg(url: str) -> AsyncIterator[Theirs]:
    connection = await asyncpg.connect(url)
    theirs = Asyncpg(connection)
    await theirs.begin()
    yield theirs
    await connection.close()


@asynccontextmanager
async def with_asyncpg_pool(url: str) -> AsyncIterator[Theirs]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        theirs = Asyncpg(connection)
        await theirs.begin()
        yield theirs


def _over(driver: str, url: str) -> str:
    return url.replace("postgresql:", f"postgresql+{driver}:", 1)


@asynccontextmanager
async def with_connection(url: str) -> AsyncIterator[Theirs]:
    engine = sqlalchemy.create_engine(_over("psycopg", url))
    with engine.connect() as connection:
        yield Blocking(connection)
    engine.dispose()


@asynccontextmanager
async def with_session(url: str) -> AsyncIterator[Theirs]:
    engine = sqlalchemy.create_engine(_over("psycopg", url))
    with orm.Session(engine) as session:
        yield Blocking(session)
    engine.dispose()


@asynccontextmanager
async def with_scoped_session(url: str) -> AsyncIterator[Theirs]:
    engine = sqlalchemy.create_engine(_over("psycopg", url))
    session = orm.scoped_session(orm.sessionmaker(engine))
    yield Blocking(session)
    session.remove()
    engine.dispose()


def with_async_connection(driver: str) -> Callable[[str], AbstractAsyncContextManager[Theirs]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Theirs]:
        engine = awaited.create_async_engine(_over(driver, url))
        async with engine.connect() as connection:
            yield Awaited(connection)
        await engine.dispose()

    return opened


def with_async_session(driver: str) -> Callable[[str], AbstractAsyncContextManager[Theirs]]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Theirs]:
        engine = awaited.create_async_engine(_over(driver, url))
        async with awaited.AsyncSession(engine) as session:
            yield Awaited(session)
        await engine.dispose()

    return opened


KINDS: dict[str, Callable[[str], AbstractAsyncContextManager[Theirs]]] = {
    "psycopg": with_psycopg,
    "psycopg async": with_async_psycopg,
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_asyncpg_pool,
    "sqlalchemy connection": with_connection,
    "sqlalchemy session": with_session,
    "sqlalchemy scoped session": with_scoped_session,
    "sqlalchemy async connection over asyncpg": with_async_connection("asyncpg"),
    "sqlalchemy async connection over psycopg": with_async_connection("psycopg"),
    "sqlalchemy async session over asyncpg": with_async_session("asyncpg"),
    "sqlalchemy async session over psycopg": with_async_session("psycopg"),
}
BLOCKING = ("psycopg", "sqlalchemy connection", "sqlalchemy session", "sqlalchemy scoped session")


def plain(url: str) -> str:
    """Give the URL as a user's library takes it."""
    return split_schema(url)[0]
