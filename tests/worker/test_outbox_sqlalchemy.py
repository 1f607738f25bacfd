"""`tx=` with SQLAlchemy on SQLite: whatever its connection or session commits is enqueued, and nothing else is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import event, orm
from sqlalchemy.ext import asyncio as awaited

from standfast import ConfigurationError, IdempotencyConflict, Receipt
from standfast.testing import assert_enqueued, memory
from tests.worker.theirs import Awaited, Blocking, Theirs

Opened = Callable[[str], AbstractAsyncContextManager[Theirs]]


@pytest.fixture
def url(path):
    """Name a file: this is about SQLite."""
    return path


@pytest.fixture
def database(tmp_path) -> str:
    """Make a database of a user's own."""
    path = str(tmp_path / "shop.db")
    with sqlite3.connect(path) as shop:
        shop.execute("CREATE TABLE orders (number INTEGER)")
    shop.close()
    return path


def orders(database: str) -> int:
    shop = sqlite3.connect(database)
    [(number,)] = shop.execute("SELECT count(*) FROM orders")
    shop.close()
    return int(number)


def blocking(wrap: Callable[[Any], Any]) -> Opened:
    @asynccontextmanager
    async def opened(database: str) -> AsyncIterator[Theirs]:
        engine = sqlalchemy.create_engine(f"sqlite:///{database}")
        tx = wrap(engine)
        yield Blocking(tx)
        getattr(tx, "remove", tx.close)()
        engine.dispose()

    return opened


def to_be_awaited(wrap: Callable[[Any], Any]) -> Opened:
    @asynccontextmanager
    async def opened(database: str) -> AsyncIterator[Theirs]:
        engine = awaited.create_async_engine(f"sqlite+aiosqlite:///{database}")
        async with wrap(engine) as tx:
            yield Awaited(tx)
        await engine.dispose()

    return opened


def with_explicit_begin(engine: sqlalchemy.Engine) -> Any:
    """Have SQLAlchemy begin by itself, the way its documentation asks for where savepoints are used."""

    @event.listens_for(engine, "connect")
    def leave_transactions_to_sqlalchemy(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine.connect()


BLOCKING: dict[str, Opened] = {
    "connection": blocking(lambda engine: engine.connect()),
    "connection that begins by itself": blocking(with_explicit_begin),
    "session": blocking(orm.Session),
    "scoped session": blocking(lambda engine: orm.scoped_session(orm.sessionmaker(engine))),
}
KINDS = BLOCKING | {
    "async connection": to_be_awaited(lambda engine: engine.connect()),
    "async session": to_be_awaited(awaited.AsyncSession),
}


@pytest.fixture(params=KINDS)
async def theirs(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Theirs]:
    async with KINDS[request.param](database) as opened:
        yield opened


@pytest.fixture
async def relay(disk, database):
    """Bring what is committed, once."""
    outbox = disk.outbox(lambda: sqlite3.connect(database))
    yield outbox.relay
    await outbox.close()


async def test_what_is_committed_is_enqueued(disk, theirs, database, relay):
    await theirs.do("INSERT INTO orders VALUES (7)")
    receipt = await disk.enqueue("mail", 7, tx=theirs.tx)
    assert receipt == Receipt(receipt.id, "deferred", None)
    assert await relay() == 0
    await theirs.commit()
    assert await relay() == 1
    assert (await disk.status(receipt.id)).payload == 7
    assert orders(database) == 1


async def test_what_is_rolled_back_never_was(disk, theirs, database, relay):
    await theirs.do("INSERT INTO orders VALUES (7)")
    receipts = await disk.enqueue_many("mail", [7, 8], tx=theirs.tx)
    await theirs.roll_back()
    assert await relay() == 0
    assert [await disk.status(each.id) for each in receipts] == [None, None]
    assert orders(database) == 0


async def test_a_conflict_of_keys_leaves_their_transaction_usable(disk, theirs, database, relay):
    first = await disk.enqueue("mail", 7, idempotency_key="k", tx=theirs.tx)
    again = await disk.enqueue("mail", 7, idempotency_key="k", tx=theirs.tx)
    assert again == Receipt(first.id, "duplicate", None)
    with pytest.raises(IdempotencyConflict):
        await disk.enqueue("mail", 8, idempotency_key="k", tx=theirs.tx)
    await theirs.do("INSERT INTO orders VALUES (7)")
    await theirs.commit()
    assert await relay() == 1
    assert orders(database) == 1


@pytest.mark.parametrize("kind", BLOCKING)
async def test_plain_code_enqueues_too(disk, database, relay, kind):
    async with BLOCKING[kind](database) as theirs:
        disk.enqueue_sync("mail", 7, tx=theirs.tx)
        await theirs.commit()
    assert await relay() == 1


async def test_plain_code_cannot_wait_for_an_async_session(disk, database):
    async with KINDS["async session"](database) as theirs:
        with pytest.raises(ConfigurationError, match=r"await sf\.enqueue"):
            disk.enqueue_sync("mail", 7, tx=theirs.tx)


async def test_autocommit_is_refused(disk, database, relay):
    engine = sqlalchemy.create_engine(f"sqlite:///{database}", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="autocommit mode"):
        await disk.enqueue("mail", 7, tx=connection)
    engine.dispose()
    beneath = awaited.create_async_engine(f"sqlite+aiosqlite:///{database}", isolation_level="AUTOCOMMIT")
    async with beneath.connect() as connection:
        with pytest.raises(ConfigurationError, match="autocommit mode"):
            await disk.enqueue("mail", 7, tx=connection)
    await beneath.dispose()
    assert await relay() == 0


async def test_a_connection_to_the_store_itself_is_refused(disk):
    await disk.open()
    engine = sqlalchemy.create_engine(f"sqlite:///{disk.settings.url.value}")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="is the store itself"):
        await disk.enqueue("mail", 7, tx=connection)
    engine.dispose()


async def test_tests_see_what_is_committed(database):
    """The test kit honours a transaction of SQLAlchemy on SQLite, as production does."""
    async with memory() as sf, KINDS["async session"](database) as theirs:
        await sf.enqueue("mail", 7, tx=theirs.tx)
        await theirs.roll_back()
        await sf.enqueue("mail", 8, tx=theirs.tx)
        await theirs.commit()
        assert (await assert_enqueued(sf, "mail")).payload == 8


async def test_tests_refuse_a_database_that_they_cannot_read():
    engine = awaited.create_async_engine("sqlite+aiosqlite://")
    async with memory() as sf, engine.connect() as connection:
        with pytest.raises(ConfigurationError, match="database in a file"):
            await sf.enqueue("mail", 7, tx=connection)
    await engine.dispose()
