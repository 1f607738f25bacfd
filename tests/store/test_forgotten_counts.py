"""Counters of queues that are forgotten go with them: callers make up names, and whoever counts reads every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from standfast.outcome import Succeeded
from standfast.rules import QueueRules
from standfast.store.store import Store
from standfast.testing import FrozenClock
from standfast.wings.health.counting import QueueCounts, job_counts, miscounts, sum_up
from standfast.worker.pruner import Pruner
from tests.store import behind
from tests.store.suite import beat, claim_one, ended, enqueued, failed, new_job, one, publish

DAY = 86400.0
Look = Callable[[str], list[tuple[Any, ...]]]


async def pruned(store: Store) -> None:
    await store.write(sum_up, None)
    await Pruner(store).prune()


def totals(look: Look) -> dict[str, int]:
    return {name: int(value) for name, value in look("SELECT name, sum(value) FROM counter GROUP BY name")}


def counted(look: Look) -> list[str]:
    found = look("SELECT queue FROM counter UNION SELECT queue FROM job_count ORDER BY queue")
    return [queue for (queue,) in found if queue]


async def done(store: Store, queue: str, **given: Any) -> None:
    await one(store, queue, **given)
    await ended(store, await claim_one(store, queue), Succeeded("1"))


@pytest.fixture
async def forgotten(store: Store, clock: FrozenClock) -> Store:
    """Use two made-up queues a day ago, and a declared one."""
    publish(store, mail=QueueRules())
    beat(store)
    for queue in ("mail", "made-up-1", "made-up-2"):
        await done(store, queue)
    await one(store, "made-up-2", delay=60)
    clock.advance(61)
    await ended(store, await claim_one(store, "made-up-2"), Succeeded("1"))
    clock.advance(DAY + 1)
    return store


async def test_counters_of_a_forgotten_queue_go_and_the_totals_stay(forgotten, look):
    before = totals(look)
    assert counted(look) == ["made-up-1", "made-up-2", "mail"]
    for _ in range(2):
        await pruned(forgotten)
    assert look("SELECT name FROM queue") == [("mail",)]
    assert counted(look) == ["mail"]
    assert totals(look) == before
    assert await forgotten.read(miscounts(forgotten.now())) == []


async def test_a_forgotten_queue_that_is_used_again_is_counted_from_there(forgotten, clock):
    for _ in range(2):
        await pruned(forgotten)
    await enqueued(forgotten, new_job("made-up-1"), new_job("made-up-1", delay=600))
    await claim_one(forgotten, "made-up-1")
    counts = await forgotten.read(job_counts(forgotten.now()))
    assert counts["made-up-1"] == QueueCounts(queued=1, scheduled=1, running=1)
    assert await forgotten.read(miscounts(forgotten.now())) == []
    clock.advance(DAY)
    await pruned(forgotten)
    assert await forgotten.read(miscounts(forgotten.now())) == []


@pytest.mark.parametrize("state", ["queued", "scheduled", "running", "dead"])
async def test_jobs_of_a_queue_that_is_in_no_list_stay_counted(store, look, state):
    """Somebody deletes the queue's row, or a job comes as the queue is being forgotten."""
    beat(store)
    await done(store, "odd")
    await one(store, "odd", budget=1, delay=DAY if state == "scheduled" else 0.0)
    if state in {"running", "dead"}:
        claim = await claim_one(store, "odd")
        assert state == "running" or await ended(store, claim, failed())
    behind.change(store, "DELETE FROM queue")
    before = totals(look)
    for _ in range(2):
        await pruned(store)
    assert await store.read(miscounts(store.now())) == []
    assert totals(look) == before


@pytest.mark.usefixtures("postgres_only")
async def test_counters_that_are_not_summed_yet_keep_those_that_are(forgotten, look):
    before = totals(look)
    await one(forgotten, "made-up-1")
    behind.change(forgotten, "DELETE FROM job")
    behind.change(forgotten, "DELETE FROM queue WHERE name LIKE 'made-up-%'")
    await Pruner(forgotten).prune()  # nothing was summed since the last job came
    await Pruner(forgotten).prune()
    assert "made-up-1" in counted(look)
    assert totals(look) == before | {"enqueued": before["enqueued"] + 1}


@pytest.fixture
def postgres_only(url: str) -> None:
    if not url.startswith("postgres"):
        pytest.skip("SQLite sums up as it writes")
