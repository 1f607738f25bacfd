"""Claims have a connection of their own: the first claim opens it, and it is given up whenever the other one is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast.errors import StoreUnusable
from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS
from standfast.spine.apply import apply
from standfast.store.store import Store
from standfast.worker.settling import settle
from tests.postgres import connect
from tests.store.suite import claim_one, claimed, ended, enqueued, new_job, one, states
from tests.waiting import seen

WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ANY(%s)"


@pytest.fixture
def url(used_postgres_url: str) -> str:
    return used_postgres_url


def sessions(store: Store) -> list[int]:
    """Give the server's numbers of the writers' sessions."""
    engine: Any = store._engine  # noqa: SLF001 - a store does not say how many connections it has
    writers = filter(None, (engine, engine._claims))  # noqa: SLF001
    return [each._connection.info.backend_pid for each in writers if each._connection]  # noqa: SLF001


def open_ones(url: str, pids: list[int]) -> list[int]:
    with connect(url) as other:
        return [pid for (pid,) in other.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", (pids,))]


async def test_a_process_that_only_enqueues_has_one_connection(store: Store):
    await one(store)
    assert len(sessions(store)) == 1
    await claim_one(store)
    assert len(sessions(store)) == 2


async def test_a_claim_does_not_wait_for_an_end_that_is_held_up(store: Store, url):
    """A person, or a report, has locked the row of a job that ends: others begin all the same."""
    held_up, _ = await enqueued(store, new_job(), new_job())
    claim = await claim_one(store)
    with connect(url) as other, connect(url) as looking:
        with other.transaction():
            other.execute("SELECT 1 FROM job WHERE n = %s FOR UPDATE", (claim.n,))
            ending = store.write_all(apply, [settle(claim, Succeeded(None), DEFAULTS, 0.0)]).start()
            await seen(lambda: looking.execute(WAITS, (sessions(store),)).fetchall() != [(0,)], within=4)
            assert len(await asyncio.wait_for(claimed(store), 0.9)) == 1
            assert not ending.done()
        assert await asyncio.wait_for(ending, 10) == [True]
    assert await states(store, held_up) == ["completed"]


async def test_of_two_claims_that_wait_the_first_is_answered_before_the_second_is_made(store: Store, url):
    """Its jobs run while the second is claimed; in one transaction they would wait for both."""
    await enqueued(store, new_job(), new_job())
    first, second = await asyncio.gather(claimed(store, slots=1), claimed(store, slots=1))
    numbers = [claim.n for claim in first + second]
    with connect(url) as other:
        [(made,)] = other.execute("SELECT count(DISTINCT xmin::text) FROM job WHERE n = ANY(%s)", (numbers,))
    assert (len(numbers), made) == (2, 2)


async def test_claims_go_on_when_their_connection_is_cut(store: Store, url):
    await enqueued(store, new_job(), new_job())
    first = await claim_one(store)
    with connect(url) as other:
        for pid in sessions(store):
            other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    second = await claim_one(store)
    assert first.n != second.n
    assert await ended(store, first, Succeeded(None))
    assert await ended(store, second, Succeeded(None))


async def test_a_process_that_forks_keeps_no_connection_meanwhile(store: Store, url):
    """A child that inherited one would speak on it too."""
    await enqueued(store, new_job(), new_job())
    await claim_one(store)
    engine: Any = store._engine  # noqa: SLF001 - as it is done before a fork
    before = sessions(store)
    assert engine.pause()
    await seen(lambda: open_ones(url, before) == [], within=4)
    claiming = asyncio.ensure_future(claim_one(store))
    await asyncio.sleep(0)
    engine.resume()
    assert (await asyncio.wait_for(claiming, 5)).attempts == 1


async def test_no_connection_is_left_when_the_store_is_closed(store: Store, url):
    await one(store)
    await claim_one(store)
    before = sessions(store)
    assert open_ones(url, before) != []
    store.close()
    await seen(lambda: open_ones(url, before) == [], within=4)


async def test_what_keeps_claims_from_being_made_is_told_by_health(store: Store, url):
    """The other writer may have nothing to do, and so no trouble."""
    await claimed(store)
    with connect(url) as other:
        before = other.execute("SELECT readable_by FROM schema").fetchall()[0]
        other.execute("UPDATE schema SET readable_by = 9999")
        try:
            with pytest.raises(StoreUnusable, match="9999"):
                await claimed(store)
            assert "9999" in (store.trouble or "")
        finally:
            other.execute("UPDATE schema SET readable_by = %s", before)
    await claimed(store)
    assert store.trouble is None


async def test_the_writer_of_claims_leaves_the_audit_file_to_the_other(store: Store, monkeypatch):
    """It ends first, while the other may still have decisions to note."""
    await one(store)
    await claim_one(store)
    engine: Any = store._engine  # noqa: SLF001 - which of the two ends first is nobody else's business
    closed: list[str] = []
    monkeypatch.setattr(engine.anchor, "close", lambda: closed.append("audit file"))
    engine._claims.close()  # noqa: SLF001
    assert closed == []
