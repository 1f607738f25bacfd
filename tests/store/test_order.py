"""The claim's order is `decide.priority`'s, whatever waits, whenever, and however often was claimed before."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from standfast.rules import QueueRules
from tests.claim_order import Candidate, order
from tests.store.suite import claimed, enqueued, new_job, publish

HOUR = 3600.0
ROUNDING = 0.001
"""Seconds that sums of times may be off: more than that after the last is due, all are due."""
HANDLERS = ("draft", "send", "purge")
_queues = (f"queue-{number}" for number in itertools.count(1))


class Waiting(NamedTuple):
    """A job as the examples draw it."""

    handler: str
    priority: int
    delay: float


# Few values each, so that ages, priorities and their sums meet often: ties are where an order goes wrong.
delays = st.sampled_from([0.0, 0.0, 1.0, 0.5 * HOUR, HOUR, 2 * HOUR, 12 * HOUR]) | st.floats(0, 20 * HOUR, width=32)
waiting = st.builds(Waiting, st.sampled_from(HANDLERS), st.integers(-3, 3) | st.integers(-100, 100), delays)
rules = st.builds(
    QueueRules,
    age_boost=st.sampled_from([0.0, 5e-324, 0.5, 1.0, 2.0, 1e308]) | st.floats(0, 10),
    age_boost_cap=st.sampled_from([0.0, 2.0, 20.0]) | st.floats(0, 50),
)


class Scene(NamedTuple):
    """A queue as the examples draw it: what waits in it, what was claimed before, and what is claimed now."""

    jobs: list[Waiting]
    rules: QueueRules
    claims_so_far: int
    slots: list[int]
    handlers: set[str]
    pause: float


scenes = st.builds(
    Scene,
    jobs=st.lists(waiting, max_size=30),
    rules=rules,
    claims_so_far=st.integers(0, 21),
    slots=st.lists(st.integers(1, 25), min_size=1, max_size=4),
    handlers=st.sets(st.sampled_from(HANDLERS), min_size=1),
    pause=delays,
)


async def fill(store, queue, scene):
    """Make the queue of a scene; give its jobs' ids, and the jobs as candidates."""
    publish(store, **{queue: scene.rules})
    if scene.claims_so_far:
        await enqueued(store, *(new_job(queue, handler="gone") for _ in range(scene.claims_so_far)))
        await claimed(store, queue, handlers=["gone"], slots=scene.claims_so_far)
    ids = await enqueued(store, *(new_job(queue, handler=h, priority=p, delay=d) for h, p, d in scene.jobs))
    return ids, [Candidate(n, job.priority, store.now() + job.delay) for n, job in enumerate(scene.jobs)]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(scene=scenes)
@example(Scene([Waiting("send", 0, 0.0), Waiting("send", 2, HOUR)], QueueRules(), 0, [2], {"send"}, 0.0))
@example(Scene([Waiting("send", 9 - n, float(n)) for n in range(30)], QueueRules(), 9, [1, 1, 20], {"send"}, 0.0))
async def test_the_claim_is_decided_as_the_rule_says(store, clock, scene):
    queue = next(_queues)
    claims_so_far = scene.claims_so_far
    ids, candidates = await fill(store, queue, scene)
    clock.advance(max((job.delay for job in scene.jobs), default=0.0) + scene.pause + ROUNDING)
    left = [each for each, job in zip(candidates, scene.jobs, strict=True) if job.handler in scene.handlers]
    for wanted in scene.slots:
        expected = order(left, store.now(), scene.rules, claims_so_far, wanted)
        found = await claimed(store, queue, handlers=sorted(scene.handlers), slots=wanted)
        assert [claim.id for claim in found] == [ids[candidate.n] for candidate in expected]
        left = [candidate for candidate in left if candidate not in expected]
        claims_so_far += len(expected)


async def test_first_in_first_out_inside_a_priority(store, clock):
    ids = []
    for priority in (5, 0, 5, 0):
        ids += await enqueued(store, new_job(priority=priority))
        clock.advance(1)
    assert [claim.id for claim in await claimed(store, slots=4)] == [ids[0], ids[2], ids[1], ids[3]]


@pytest.mark.parametrize(("hours", "first"), [(2.4999, "high"), (2.5, "low"), (2.5001, "low")])
async def test_waiting_raises_a_job_by_two_an_hour_exactly(store, clock, hours, first):
    """At the very moment both weigh the same, the one that waits longer wins."""
    [low] = await enqueued(store, new_job(priority=0))
    clock.advance(hours * HOUR)
    [high] = await enqueued(store, new_job(priority=5))
    [claim] = await claimed(store)
    assert claim.id == {"low": low, "high": high}[first]


async def test_waiting_raises_a_job_by_twenty_at_most(store, clock):
    await enqueued(store, new_job(priority=0))
    clock.advance(1000 * HOUR)
    [high] = await enqueued(store, new_job(priority=21))
    [claim] = await claimed(store)
    assert claim.id == high


async def test_every_tenth_claim_takes_the_longest_waiting(store, clock):
    [old] = await enqueued(store, new_job(priority=-100))
    clock.advance(1)
    rush = await enqueued(store, *(new_job(priority=100) for _ in range(30)))
    found = [(await claimed(store))[0].id for _ in range(10)]
    assert found == [*rush[:9], old]


async def test_the_tenth_claim_is_counted_for_each_queue_by_itself(store, clock):
    [old] = await enqueued(store, new_job(priority=-100))
    clock.advance(1)
    rush = await enqueued(store, *(new_job(priority=100) for _ in range(9)))
    await enqueued(store, *(new_job("chat") for _ in range(9)))
    await claimed(store, "chat", slots=9)
    assert [(await claimed(store))[0].id for _ in range(10)] == [*rush, old]


async def test_claims_are_counted_across_openings_of_one_handler_and_of_many(store, clock):
    """Nine claims of one lane, where no choice is to be made, count towards the tenth like any other."""
    await enqueued(store, *(new_job(priority=1) for _ in range(9)))
    await claimed(store, slots=9)
    [old] = await enqueued(store, new_job(priority=-100))
    clock.advance(1)
    await enqueued(store, new_job(priority=100))
    [claim] = await claimed(store)
    assert claim.id == old
