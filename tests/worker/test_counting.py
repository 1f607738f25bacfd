"""Counts are true: where counting stops at its bound, they say so."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from standfast import Permanent
from standfast.cli.terminal import Cell, Table
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.views import JobView
from standfast.wings.health import scripts as health_scripts
from standfast.wings.queues.boards import queue_board, stats_board

BOUND = 3
BUSY = 10
"""A bound below this is met by what is done at random."""
VIEWS = {"queued": "due", "scheduled": "scheduled", "parked": "parked", "dead": "letters", "held": "letters"}
VIEWS |= {"waiting": "waiting", "running": "running"}
COUNTED = sorted({*VIEWS.values()})


@pytest.fixture
def _counts_little(monkeypatch):
    monkeypatch.setattr(health_scripts, "MOST_COUNTED", BOUND)


def cells(*tables: Table) -> set[str]:
    return {cell.text if isinstance(cell, Cell) else cell for table in tables for row in table.rows for cell in row}


@pytest.mark.usefixtures("_counts_little")
async def test_counts_below_the_bound_are_exact(sf):
    await sf.enqueue_many("mail", [1] * (BOUND - 1))
    counted = await sf.stats()
    assert (counted["total_pending"], counted["at_least"], counted["queues"]["mail"]["at_least"]) == (BOUND - 1, [], [])
    assert (await sf.health())["at_least"] == []


@pytest.mark.usefixtures("_counts_little")
@pytest.mark.parametrize("late", [False, True])
async def test_due_jobs_beyond_it_are_told_as_at_least_so_many(sf, late):
    sf.queue("mail", depth_warning=BOUND - 1)
    await sf.enqueue_many("mail", [1] * (BOUND + 2), delay=5 if late else 0)
    sf.clock.advance(10)
    counted, judged = await sf.stats(), await sf.health()
    assert (counted["total_pending"], counted["at_least"]) == (BOUND, ["total_pending"])
    assert (judged["total_pending"], judged["at_least"]) == (BOUND, ["total_pending"])
    assert counted["queues"]["mail"]["at_least"] == ["due"]
    assert "mail: 3+ due jobs and no worker" in judged["issues"]
    assert "3+" in cells(*stats_board(counted, (await sf.jobs())[0].created_at))
    assert "3+" in cells(queue_board(await sf.queues.describe()))


@pytest.mark.usefixtures("_counts_little")
async def test_letters_beyond_it_too(sf):
    sf.queue("mail", attempts=1, dead_warning=0)
    sf.handler("mail")(lambda _job: 1 / 0)
    await sf.enqueue_many("mail", [1] * (BOUND + 2))
    await drain(sf)
    judged = await sf.health()
    assert (judged["total_dead_letter"], judged["at_least"]) == (BOUND, ["total_dead_letter"])
    assert "mail: 3+ dead letters" in judged["issues"]


@pytest.mark.usefixtures("_counts_little")
async def test_what_is_scheduled_elsewhere_makes_every_queues_count_a_bound(sf):
    await sf.enqueue_many("mail", [1] * (BOUND + 2), delay=60)
    await sf.enqueue("chat", delay=90)
    queues = (await sf.stats())["queues"]
    assert [queues[name]["at_least"] for name in ("chat", "mail")] == [["scheduled"], ["scheduled"]]


@pytest.mark.usefixtures("_counts_little")
async def test_a_queue_is_counted_as_far_as_its_warnings_need_it(sf):
    sf.queue("mail", attempts=1, depth_warning=10, dead_warning=8)
    sf.handler("mail")(lambda _job: 1 / 0)
    await sf.enqueue_many("mail", [1] * 9)
    await drain(sf)
    await sf.enqueue_many("mail", [1] * 12)
    issues = (await sf.health())["issues"]
    assert {"mail: 9+ dead letters", "mail: 11+ pending (backed up)"} <= {*issues}


async def test_the_longest_wait_is_found_in_whatever_lane_it_is(sf):
    for handler, priority in (("two", 9), ("one", 5), ("two", -3), ("one", 0)):
        await sf.enqueue("mail", handler=handler, priority=priority)
        sf.clock.advance(10)
    await sf.enqueue("chat")
    assert (await sf.stats())["oldest_pending_seconds"] == pytest.approx(40.0)
    named = [issue for issue in (await sf.health())["issues"] if "handler" in issue]
    assert sorted(named) == ["chat: no handler is known", "mail: no handler is known"]


async def test_how_many_nothing_moves_is_a_bound_too(sf, monkeypatch):
    """Each lane is looked at as far as leaves some of the looking to the others; none is left out."""
    monkeypatch.setattr(health_scripts, "LOOKED_THROUGH", 7)
    await sf.enqueue_many("mail", [1] * 3, priority=5)
    await sf.enqueue_many("mail", [1] * 3)
    await sf.enqueue("chat")
    sf.clock.advance(60)
    issues = {issue for issue in (await sf.health())["issues"] if "nothing moves" in issue}
    assert issues == {"mail: nothing moves 4+ jobs", "chat: nothing moves 1 job"}


# --- after whatever happened


class Bustle:
    """Does something at random to a store, again and again."""

    def __init__(self, sf: InMemory, seed: int) -> None:
        self._sf = sf
        self._chance = random.Random(seed)  # noqa: S311 - a reproducible choice
        for name in ("mail", "chat", "post"):
            sf.queue(name, attempts=2, depth_warning=0, dead_warning=0)
            sf.handler(name)(self._handled)

    async def _handled(self, job):
        if job.payload % 3 == 0:
            raise Permanent("no")
        return 1 / 0 if job.payload % 3 == 1 else None

    async def go_on(self) -> None:
        acts = (self._enqueue, self._enqueue, self._work, self._cancel, self._replay, self._discard, self._wait)
        await self._chance.choice(acts)()

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


@pytest.mark.parametrize(("most", "seed"), [(30_000, 1), (2, 2), (4, 3)])
async def test_every_count_is_the_true_one_or_says_that_it_is_less(sf, monkeypatch, most, seed):
    monkeypatch.setattr(health_scripts, "MOST_COUNTED", most)
    bustle, seen = Bustle(sf, seed), Counter[tuple[str, bool]]()
    for _ in range(30):
        await bustle.go_on()
        truth, found = await true_counts(sf), (await sf.stats())["queues"]
        for queue, counts in found.items():
            for what in COUNTED:
                number, more = counts[what], what in counts["at_least"]
                assert number == truth[queue, what] or (more and number < truth[queue, what]), (queue, what)
                seen[what, more] += number > 0
    came = {each for each, times in seen.items() if times}
    assert came >= {("due", False), ("scheduled", False), ("letters", False)} or most < BUSY
    assert any(more for _, more in came) == (most < BUSY)
