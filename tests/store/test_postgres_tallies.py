"""The claims of a queue are counted by worker. What workers that are gone counted is one row for each queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from standfast import Standfast
from standfast.application.wings import store_at
from standfast.outcome import Succeeded
from standfast.store.store import Store
from standfast.wings.health.timings import Counted
from standfast.worker import upkeep
from standfast.worker.pruner import Pruner
from tests.postgres import connect
from tests.store.suite import beat, claim_one, claimed, ended, enqueued, new_job, one

QUEUES = ("mail", "chat", "post")
ROWS = "SELECT worker, claims FROM tally WHERE queue = 'mail' ORDER BY worker"


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with closing(store_at(postgres_url)) as opened:
        opened.open()
        yield opened


@pytest.fixture
def server(store: Store, postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    assert store.location  # it makes the schema
    with connect(postgres_url) as connection:
        yield connection


def rows(server: psycopg.Connection[Any], question: str = ROWS) -> list[tuple[Any, ...]]:
    return server.execute(question.encode()).fetchall()


async def test_workers_that_come_and_stop_leave_one_row_for_each_queue(postgres_url):
    """A worker that cron starts every minute left half a million rows a year, and each look at the queue read them."""
    async with Standfast(postgres_url) as sf:
        sf.handler("mail")(lambda _job: None)
        for _ in range(4):
            async with sf.worker(["mail"]):
                await sf.wait((await sf.enqueue("mail")).id, 30)
        with connect(postgres_url) as server:
            assert rows(server) == [("", 4)]
            assert rows(server, "SELECT claimed_at > 0 FROM tally") == [(True,)]


async def test_a_worker_that_stops_while_it_holds_a_job_keeps_its_row_until_it_is_forgotten(store, server):
    beat(store, "holds")
    await one(store)
    claim = await claim_one(store, worker="holds")
    await store.write(upkeep.retire, Counted("holds", 0, {}))
    assert rows(server) == [("holds", 1)]
    await ended(store, claim, Succeeded())
    await store.write(upkeep.retire, Counted("holds", 0, {}))
    assert rows(server) == [("", 1)]


async def test_pruning_adds_up_what_is_left_of_workers_that_are_in_no_list(store, server):
    beat(store, "lives")
    await enqueued(store, *(new_job() for _ in range(3)))
    await claimed(store, slots=3, worker="lives")
    server.execute("INSERT INTO tally SELECT 'mail', 'gone-' || g, 2, g FROM generate_series(1, 2500) AS g")
    server.execute("INSERT INTO tally SELECT 'chat', 'gone-' || g, 1, g FROM generate_series(1, 2) AS g")
    await Pruner(store).prune()
    assert rows(server) == [("", 5000), ("lives", 3)]
    assert rows(server, "SELECT claims, claimed_at FROM tally WHERE queue = 'chat'") == [(2, 2.0)]
    assert rows(server, "SELECT claimed_at FROM tally WHERE queue = 'mail' AND worker = ''") == [(2500.0,)]


async def test_a_row_that_a_claim_holds_is_left_for_later(store, server, postgres_url):
    """A worker that is in no list may still be claiming: neither waits for the other."""
    server.execute("INSERT INTO tally VALUES ('mail', 'late', 1, 1), ('mail', 'gone', 1, 1)")
    with connect(postgres_url) as claiming:
        claiming.execute("BEGIN")
        claiming.execute("UPDATE tally SET claims = 2 WHERE worker = 'late'")
        await Pruner(store).prune()
        assert rows(server) == [("", 1), ("late", 1)]
        claiming.execute("COMMIT")
    await Pruner(store).prune()
    assert rows(server) == [("", 3)]


async def test_workers_that_stop_together_lose_no_claim(store, server, postgres_url):
    with closing(store_at(postgres_url)) as other:
        other.open()
        stores = {"one": store, "two": other, "three": store, "four": other}
        for worker, place in stores.items():
            beat(place, worker)
            for queue in QUEUES:
                await one(place, queue)
                await ended(place, await claim_one(place, queue, worker=worker), Succeeded())
        await asyncio.gather(
            *(place.write(upkeep.retire, Counted(worker, 0, {})) for worker, place in stores.items()),
            *(Pruner(place).prune() for place in (store, other)),
        )
    assert rows(server, "SELECT queue, worker, claims FROM tally ORDER BY queue") == [
        (queue, "", 4) for queue in sorted(QUEUES)
    ]
