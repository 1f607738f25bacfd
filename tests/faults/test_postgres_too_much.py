"""A server that cannot do a whole round in time, or is held up for a while: every part that it can do goes through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection

from standfast import Standfast
from standfast.store.postgres import connection as postgres_connection
from tests.postgres import PostgresServer, connect
from tests.waiting import seen

SHORTEST_CALL = 1.0
SLOW = 0.05
"""Seconds that one slow row takes."""
MANY = 40
"""Rows that take longer together than a statement may."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "LONGEST_CALL", SHORTEST_CALL)


@contextmanager
def slow_rows(url: str, table: str) -> Iterator[None]:
    """Make the server take its time for each new row of a table."""
    with connect(url) as beside:
        beside.execute(
            f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM pg_sleep({SLOW}); RETURN NEW; END $$; "
            f"CREATE TRIGGER slow BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION slow()".encode()
        )
        yield
        beside.execute(f"DROP TRIGGER slow ON {table}".encode())


@pytest.mark.usefixtures("impatient")
async def test_ends_that_the_server_cannot_write_together_are_written_in_parts(postgres_url):
    """They were tried again all together, for good, and the worker's heartbeat with them."""
    going_on = asyncio.Event()
    async with Standfast(postgres_url) as sf:

        @sf.handler("mail")
        async def mail(_job):
            await going_on.wait()
            return {"sent": True}

        receipts = await sf.enqueue_many("mail", range(MANY))
        async with sf.worker(concurrency=MANY):
            await seen(lambda: running(sf, MANY))
            with slow_rows(postgres_url, "ending"):
                going_on.set()
                views = [await sf.wait(receipt.id, 30) for receipt in receipts]
    assert {(view.state, view.attempts) for view in views} == {("completed", 1)}


async def running(sf: Standfast, count: int) -> bool:
    stats = await sf.stats()
    return bool(stats["total_processing"] == count)


@pytest.mark.usefixtures("impatient")
async def test_calls_that_the_server_cannot_store_together_are_stored_in_parts(postgres_url):
    async with Standfast(postgres_url) as sf:
        await sf.enqueue("mail")
        with slow_rows(postgres_url, "body"):
            receipts = await asyncio.gather(*(sf.enqueue("mail", n) for n in range(MANY)))
    assert {receipt.outcome for receipt in receipts} == {"accepted"}


async def test_calls_that_a_transaction_holds_up_keep_no_other_call_waiting(postgres_url):
    """Each of them cost the one writer 0.15 seconds, again and again: it did nothing else any more."""
    async with Standfast(postgres_url) as sf:
        sf.queue("limited", max_depth=1000)
        await sf.enqueue("free")
        await sf.enqueue("limited")
        with connect(postgres_url) as tx, tx.transaction():
            await sf.enqueue("limited", tx=tx)
            stuck = [asyncio.ensure_future(sf.enqueue("limited", n)) for n in range(MANY)]
            for _ in range(MANY // 4):
                stuck.append(asyncio.ensure_future(sf.enqueue("limited")))
                receipt = await asyncio.wait_for(sf.enqueue("free"), 3)
                assert receipt.outcome == "accepted"
            assert not any(call.done() for call in stuck)
        receipts = await asyncio.gather(*stuck)
    assert {receipt.outcome for receipt in receipts} == {"accepted"}


@pytest.mark.usefixtures("impatient")
async def test_a_commit_that_waits_for_a_standby_is_waited_for(own_server: PostgresServer, own_url: str, monkeypatch):
    """If it were cancelled, the server would keep it, and the next try would acknowledge what no standby has."""
    monkeypatch.setattr("standfast.store.store.PATIENCE", 5 * SHORTEST_CALL)
    async with Standfast(own_url) as sf:
        await sf.enqueue("mail", 0)
        with connect(own_server.url) as beside, without_standby(beside):
            enqueueing = asyncio.ensure_future(sf.enqueue("mail", 1))
            most = 0
            while not enqueueing.done():
                [(stuck,)] = beside.execute(STUCK).fetchall()
                most = max(most, stuck)
                await asyncio.sleep(SLOW)
            assert (await enqueueing).outcome == "spooled", (
                "no standby has it, so it must not be acknowledged as stored"
            )
            assert most == 1
        await seen(lambda: pending(sf, 2))


STUCK = b"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@contextmanager
def without_standby(beside: Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Have every COMMIT of the server wait for a standby that is not there."""
    beside.execute(b"ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    beside.execute(b"SELECT pg_reload_conf()")
    yield
    beside.execute(b"ALTER SYSTEM RESET synchronous_standby_names")
    beside.execute(b"SELECT pg_reload_conf()")


async def pending(sf: Standfast, count: int) -> bool:
    stats = await sf.stats()
    return bool(stats["total_pending"] == count)
