"""No path to silence: whatever nothing moves and no reason is given for is found, and nothing else."""

from __future__ import annotations

import pytest

from standfast.failure import Class
from standfast.outcome import Snooze, Succeeded
from standfast.rules import QueueRules
from standfast.wings.health import scripts as health_scripts
from tests.store.suite import beat, claim_one, claimed, ended, enqueued, failed, new_job, one, publish, swept

TWO_SWEEPS = 20.0


@pytest.fixture
def silent(store):
    async def found():
        return (
            await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0, unmoved_for=TWO_SWEEPS))
        ).silent

    return found


async def test_a_due_job_nobody_claims_is_silent_after_two_sweeps(store, clock, silent):
    await one(store)
    clock.advance(TWO_SWEEPS - 1)
    assert await silent() == {}
    clock.advance(2)
    assert await silent() == {"mail": 1}


async def test_one_that_came_due_and_was_never_made_claimable_counts_too(store, clock, silent):
    await one(store, delay=60.0)
    clock.advance(60 + TWO_SWEEPS - 1)
    assert await silent() == {}
    clock.advance(2)
    assert await silent() == {"mail": 1}


async def test_a_queue_that_is_claimed_from_is_not_silent(store, clock, silent):
    await enqueued(store, new_job(), new_job(), new_job("post"))
    clock.advance(TWO_SWEEPS + 1)
    await claim_one(store)
    beat(store)
    assert await silent() == {"post": 1}


async def test_what_is_due_later_final_or_a_letter_with_a_reason_is_not_silent(store, clock, silent):
    await enqueued(store, *(new_job() for _ in range(4)), new_job(delay=3600.0))
    done, dead, again, back = await claimed(store, slots=4)
    await ended(store, done, Succeeded())
    await ended(store, dead, failed(Class.PERMANENT))
    await ended(store, again, failed(), QueueRules(backoff=QueueRules().backoff))
    await ended(store, back, Snooze(3600.0))
    assert await silent() == {}
    clock.advance(TWO_SWEEPS * 2)
    assert await silent() == {"mail": 1}  # the repeat came due, and nobody is there


async def test_a_running_job_is_silent_once_its_lease_is_over_and_nobody_swept(store, clock, silent):
    publish(store, mail=QueueRules(lease=90.0))
    await one(store)
    beat(store)
    await claim_one(store)
    clock.advance(60)
    beat(store)
    clock.advance(90 + TWO_SWEEPS - 1)
    assert await silent() == {}
    clock.advance(2)
    assert await silent() == {"mail": 1}
    await swept(store)
    clock.advance(11)
    await swept(store)  # one that comes back after a gap reclaims nothing at first
    assert await silent() == {}


async def test_a_job_parked_on_a_gate_is_silent_only_without_the_gate(store, clock, silent, change):
    publish(store, mail=QueueRules(coalesce="never", lease=3600.0))
    await enqueued(store, new_job(thread_key="t"), new_job(thread_key="t"))
    beat(store)
    await claim_one(store)
    clock.advance(TWO_SWEEPS + 1)
    beat(store)
    assert await silent() == {}
    change("DELETE FROM gate")
    assert await silent() == {"mail": 1}


async def test_a_gate_whose_holder_has_ended_is_as_good_as_none(store, silent, change):
    publish(store, mail=QueueRules(coalesce="never"))
    await enqueued(store, new_job(thread_key="t"), new_job(thread_key="t"))
    change("UPDATE job SET state = 'completed', finished_at = 1, ready_at = NULL WHERE parked_on IS NULL")
    assert await silent() == {"mail": 1}


async def test_a_letter_without_a_reason_is_silent(store, silent, change):
    await one(store)
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    assert await silent() == {}
    change("UPDATE ending SET failure = NULL")
    assert await silent() == {"mail": 1}
