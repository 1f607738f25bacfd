"""Counts are exact at any size, after whatever happened."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from standfast import Permanent, StandfastError
from standfast.cli.terminal import Cell, Table
from standfast.outcome import Succeeded
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.views import JobView
from standfast.wings.health import scripts as health_scripts
from standfast.wings.queues.boards import queue_board, stats_board
from standfast.wings.records.figures import number
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.counts import wrong_counts
from tests.store.suite import claim_one, claimed, ended
from tests.worker.inside import store_of

VIEWS = {"queued": "due", "scheduled": "scheduled", "parked": "parked", "dead": "letters", "held": "letters"}
VIEWS |= {"waiting": "waiting", "running": "running"}
COUNTED = sorted({*VIEWS.values()})


def cells(*tables: Table) -> set[str]:
    return {cell.text if isinstance(cell, Cell) else cell for table in tables for row in table.rows for cell in row}


@pytest.mark.parametrize("late", [False, True])
async def test_a_hundred_thousand_due_jobs_read_100_000_everywhere(sf, late):
    sf.queue("mail", depth_warning=100)
    for _ in range(100):
        await sf.enqueue_many("mail", [1] * 1000, delay=5 if late else 0)
    sf.clock.advance(10)
    counted, judged = await sf.stats(), await sf.health()
    assert (counted["total_pending"], judged["total_pending"]) == (100_000, 100_000)
    assert counted["queue_depths"]["mail"] == counted["queues"]["mail"]["due"] == 100_000
    shown = number(100_000)
    assert any(each.startswith(f"mail: {shown} jobs are due, the oldest for ") for each in judged["issues"])
    assert shown in cells(*stats_board(counted, (await sf.jobs())[0].created_at))
    assert shown in cells(queue_board(await sf.queues.describe(), datetime.now(UTC)))


async def test_letters_are_counted_one_by_one_however_many(sf):
    sf.queue("mail", attempts=1, dead_warning=0)
    sf.handler("mail")(lambda _job: 1 / 0)
    await sf.enqueue_many("mail", [1] * 1200)
    await drain(sf)
    judged = await sf.health()
    assert judged["total_dead_letter"] == 1200
    assert f"mail: {number(1200)} dead letters" in judged["issues"]


async def test_the_longest_wait_is_found_in_whatever_lane_it_is(sf):
    for handler, priority in (("two", 9), ("one", 5), ("two", -3), ("one", 0)):
        await sf.enqueue("mail", handler=handler, priority=priority)
        sf.clock.advance(10)
    await sf.enqueue("chat")
    assert (await sf.stats())["oldest_pending_seconds"] == pytest.approx(40.0)
    named = [issue for issue in (await sf.health())["issues"] if "no handler is known" in issue]
    assert [issue.partition(",")[0] for issue in sorted(named)] == [
        "chat: 1 job is due and no worker serves this queue; no handler is known",
        "mail: 4 jobs are due",
    ]
    assert "the oldest for 40 s, and no worker" in max(named)


async def test_what_was_not_counted_to_the_end_is_told_by_what_is_exact(sf, monkeypatch):
    """Each lane is looked at as far as leaves some of the looking to the others; none is left out."""
    monkeypatch.setattr(health_scripts, "LOOKED_THROUGH", 7)
    await sf.enqueue_many("mail", [1] * 3, priority=5)
    await sf.enqueue_many("mail", [1] * 3)
    await sf.enqueue("chat")
    sf.clock.advance(60)
    issues = (await sf.health())["issues"]
    assert any(each.startswith("mail: 6 jobs are due, the oldest for 1 min, and no worker") for each in issues)
    assert any(each.startswith("chat: 1 job has been due for 1 min and no worker") for each in issues)
    assert not any("stuck" in each for each in issues), "that no worker serves them says it all"


# --- after whatever happened


class Bustle:
    """Does something at random to a store, again and again."""

    def __init__(self, sf: InMemory, seed: int) -> None:
        self._sf = sf
        self._chance = random.Random(seed)  # noqa: S311 - a reproducible choice
        for name in ("mail", "chat", "post"):
            sf.queue(name, attempts=2, depth_warning=0, dead_warning=0, coalesce="never")
            sf.handler(name)(self._handled)

    async def _handled(self, job):
        if job.payload % 3 == 0:
            raise Permanent("no")
        return 1 / 0 if job.payload % 3 == 1 else None

    async def go_on(self) -> None:
        acts = (self._enqueue, self._work, self._cancel, self._replay, self._discard, self._wait, self._flow)
        rarely = (self._purge, self._hurry, self._prune)
        await self._chance.choice((*acts, *acts, self._enqueue, *rarely))()

    async def _flow(self) -> None:
        flow = self._sf.workflow("flow")
        first = flow.step("first", "mail", self._chance.randrange(3))
        flow.step("second", "chat", 2, after=[first])
        await flow.start()

    async def _purge(self) -> None:
        letters = await self._sf.dead_letters.list({"queue": "post"})
        with suppress(StandfastError):  # some of them were discarded, and count too
            await self._sf.dead_letters.purge({"queue": "post"}, by="ann", reason="test", confirm=len(letters))

    async def _hurry(self) -> None:
        for job in (await self._sf.jobs(view="scheduled"))[:2]:
            await self._sf.retry(job.id)

    async def _prune(self) -> None:
        self._sf.clock.advance(86400 * 8)
        await store_of(self._sf).write(upkeep.prune, PruneRequest())

    async def _enqueue(self) -> None:
        queue = self._chance.choice(("mail", "chat", "post"))
        thread = self._chance.choice((None, None, None, "a", "b"))
        delay = self._chance.choice((0, 0, 0, 30))
        for payload in range(self._chance.randrange(6)):
            await self._sf.enqueue(queue, payload, delay=delay, priority=payload % 2, thread_key=thread)

    async def _work(self) -> None:
        await drain(self._sf)

    async def _cancel(self) -> None:
        for job in (await self._sf.jobs(state="queued"))[:2]:
            await self._sf.cancel(job.id)

    async def _replay(self) -> None:
        for letter in (await self._sf.dead_letters.list())[:3]:
            await self._sf.dead_letters.replay(letter.id, by="ann")

    async def _discard(self) -> None:
        for letter in (await self._sf.dead_letters.list())[:1]:
            await self._sf.dead_letters.discard(letter.id, by="ann", reason="test")

    async def _wait(self) -> None:
        self._sf.clock.advance(40)


async def true_counts(sf: InMemory) -> Counter[tuple[str, str]]:
    jobs = await sf.jobs(limit=500)
    assert jobs.next_cursor is None
    return Counter((job.queue, what) for job in jobs if (what := counted_as(sf, job)) is not None)


def counted_as(sf: InMemory, job: JobView) -> str | None:
    if job.view == "retry_pending":
        return "due" if job.due_at.timestamp() <= sf.clock.wall() else "scheduled"
    return VIEWS.get(job.view)


@pytest.mark.parametrize("seed", [1, 2, 4])
async def test_every_count_is_the_true_one_whatever_happened(sf, seed):
    bustle, seen = Bustle(sf, seed), Counter[str]()
    for _ in range(60):
        await bustle.go_on()
        truth, found = await true_counts(sf), (await sf.stats())["queues"]
        assert await wrong_counts(sf) == []
        for queue, counts in found.items():
            for what in COUNTED:
                assert counts[what] == truth[queue, what], (queue, what)
                seen[what] += counts[what] > 0
    assert all(seen[what] for what in ("due", "scheduled", "parked", "letters", "waiting"))


async def _oldest(sf: InMemory) -> tuple[Any, Any]:
    """Give how long the oldest due job has been due: in stats, and for Prometheus."""
    shown, measured = await sf.stats(), await sf.measures()
    return shown["oldest_pending_seconds"], measured.queues["charge"].oldest_seconds


async def test_a_job_that_waited_at_a_gate_has_been_due_since_it_was_due(sf):
    rules = sf.queue("charge", attempts=3)
    sf.handler("charge")(lambda _job: None)
    await sf.enqueue("charge", 0, delay=7)  # comes first into the store, and last in the line
    for payload in range(1, 4):
        await sf.enqueue("charge", payload, thread_key="account")
    first = await claim_one(store_of(sf), "charge", slots=4)
    sf.clock.advance(62)
    assert (await sf.stats())["queues"]["charge"]["parked"] == 2
    assert await _oldest(sf) == (pytest.approx(62), pytest.approx(62))  # all wait at the gate, one is late
    assert await ended(store_of(sf), first, Succeeded(), rules)  # which lets the next one go on
    assert (await sf.stats())["total_pending"] == 2
    assert await _oldest(sf) == (pytest.approx(62), pytest.approx(62))
    await claimed(store_of(sf), "charge", slots=4)  # also the one that was late
    sf.clock.advance(1)
    assert await _oldest(sf) == (pytest.approx(63), pytest.approx(63))


async def test_a_job_that_is_not_due_is_not_pending(sf):
    sf.handler("charge")(lambda _job: None)
    await sf.enqueue("charge", delay=100)
    assert await _oldest(sf) == (None, 0)
