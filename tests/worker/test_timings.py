"""How long jobs wait and attempts take, as workers count it: in buckets, over all of them, none twice."""

from __future__ import annotations

import pytest

from standfast import Snooze
from standfast.testing import drain
from standfast.timing import BOUNDS, Timing
from standfast.wings.health import timings as timings_script
from standfast.wings.health.timings import Counted
from standfast.worker import upkeep
from standfast.worker.stopwatch import GIVEN_UP, Stopwatch
from standfast.worker.upkeep import PruneRequest, WorkerCard
from tests.waiting import seen
from tests.worker.inside import store_of


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (0.005, 0), (0.0051, 1), (1.0, 7), (3600.0, 15), (3600.1, 16), (1e9, 16)]
)
def test_a_bucket_holds_what_is_not_longer_than_its_bound(seconds, bucket):
    watch = Stopwatch("me")
    watch.waited([("mail", seconds)])
    watch.ran([("mail", seconds)])
    timing = watch.take(0.0).queues["mail"]
    expected = [int(place == bucket) for place in range(len(BOUNDS) + 1)]
    assert (timing.waits, timing.waited, timing.runs, timing.ran) == (expected, seconds, expected, seconds)


def test_sums_keep_what_another_version_counted():
    mine, theirs = Timing(), Timing(waits=[1] * 20, waited=5.0)
    mine.waits[0] = 1
    total = mine.plus(theirs)
    assert (sum(total.waits), total.waits[0], total.waited) == (21, 2, 5.0)


def test_a_worker_writes_what_changed_until_it_is_known_to_be_written():
    watch = Stopwatch("me")
    watch.waited([("mail", -0.1)])  # clocks of two hosts differ
    assert (watch.take(0.0).queues["mail"].waited, list(watch.take(1.0).queues)) == (0.0, ["mail"])
    watch.confirm(1.0)
    assert watch.take(2.0).queues == {}
    watch.ran([("chat", 1.0)])
    assert list(watch.take(3.0).queues) == ["chat"]


def test_a_worker_that_was_given_up_counts_anew_in_another_part():
    watch = Stopwatch("me")
    watch.ran([("mail", 1.0)])
    watch.take(0.0)
    watch.confirm(0.0)
    watch.ran([("mail", 1.0)])
    assert sum(watch.take(GIVEN_UP).queues["mail"].runs) == 2
    watch.ran([("mail", 1.0)])
    counted = watch.take(GIVEN_UP + 1)
    assert (counted.part, sum(counted.queues["mail"].runs)) == (1, 0), "what came between is not counted twice"
    watch.ran([("mail", 1.0)])
    assert sum(watch.take(GIVEN_UP + 2).queues["mail"].runs) == 1


async def test_the_wait_is_from_due_to_claimed(sf):
    """A delay is no wait, and a repeat waits from the end of its backoff on."""
    tries = iter([Snooze(10), None])

    @sf.handler("mail")
    async def mail(_job):
        return next(tries)

    await sf.enqueue("mail", delay=20)
    sf.clock.advance(23)
    await drain(sf)
    sf.clock.advance(14)
    await drain(sf)
    timings = await store_of(sf).read(timings_script.read())
    assert timings["mail"].waited == pytest.approx(3 + 4)
    assert (sum(timings["mail"].waits), sum(timings["mail"].runs)) == (2, 2)


async def test_what_the_gone_counted_is_added_up_once_and_what_the_living_count_is_theirs(sf):
    await sf.open()
    store, one = store_of(sf), Timing()
    one.runs[0], one.ran = 1, 1.0
    for owner in ("gone-1", "gone-2"):
        await store.write(upkeep.retire, Counted(owner, 0, {"mail": one}))
    card = WorkerCard("lives", "here", 1, "[]", "{}", None, Counted("lives", 1, {"mail": one}))
    for _ in range(3):
        store.write(upkeep.beat, card).result()
        await store.write(upkeep.prune, PruneRequest())
        timings = await store.read(timings_script.read())
        assert (sum(timings["mail"].runs), timings["mail"].ran) == (3, 3.0)


async def test_a_worker_writes_with_its_beat(disk):
    @disk.handler("mail")
    async def mail(_job):
        return None

    disk.queue("mail", lease=1)
    async with disk.worker():
        await disk.enqueue("mail")

        async def written():
            timings = await store_of(disk).read(timings_script.read())
            return "mail" in timings and sum(timings["mail"].runs) == 1

        await seen(written)
