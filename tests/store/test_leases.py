"""Leases: a worker holds its jobs while it beats; what it lost is found, but never while it may only be late."""

from __future__ import annotations

import pytest

from standfast.outcome import Drained, Lapsed, NotEntered, Snooze, Succeeded
from standfast.rules import DEFAULTS, QueueRules
from standfast.spine.apply import apply
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health.timings import Counted
from standfast.wings.jobs import scripts as operations
from standfast.worker import upkeep
from standfast.worker.settling import settle
from standfast.worker.upkeep import HeldJob
from tests.store.suite import (
    EVERY,
    beat,
    claim_one,
    claimed,
    ended,
    enqueued,
    failed,
    new_job,
    one,
    publish,
    seen,
    sweep,
    swept,
)

LEASE = 90.0


def held_as(held: HeldJob):
    return held.n, held.token, held.id


async def swept_for(store, clock, seconds, *, workers=("worker-1",)):
    """Let time pass with a sweep and everybody's heartbeat every ten seconds; give what lapsed meanwhile."""
    lapsed = []
    for _ in range(int(seconds / EVERY)):
        clock.advance(EVERY)
        for worker in workers:
            beat(store, worker)
        lapsed += [claim.id for claim in (await sweep(store)).lapsed]
    return lapsed


async def test_a_heartbeat_tells_what_its_worker_holds(store, clock):
    ids = await enqueued(store, *(new_job() for _ in range(3)))
    claims = await claimed(store, slots=2, worker="worker-1")
    await claim_one(store, worker="worker-2")
    clock.advance(5)
    told = beat(store, "worker-1")
    assert told.at == store.now()
    assert [held_as(held) for held in told.held] == [(claim.n, claim.token, claim.id) for claim in claims]
    assert [held.id for held in beat(store, "worker-2").held] == [ids[2]]
    assert beat(store, "worker-3").held == []


async def test_a_heartbeat_no_longer_tells_what_its_worker_lost(store, clock):
    await one(store)
    beat(store, "worker-1")
    first = await claim_one(store, worker="worker-1")
    await ended(store, first, Lapsed())
    assert beat(store, "worker-1").held == []
    clock.advance(10)
    second = await claim_one(store, worker="worker-2")
    assert beat(store, "worker-1").held == []
    assert [held_as(held) for held in beat(store, "worker-2").held] == [(second.n, second.token, second.id)]


async def test_a_worker_that_beats_keeps_its_jobs_for_ever(store, clock):
    job_id = await one(store)
    beat(store)
    await claim_one(store)
    assert await swept_for(store, clock, 5 * LEASE) == []
    assert (await seen(store, job_id)).state == "running"


@pytest.mark.parametrize(("lease", "rule"), [(None, 90.0), (30.0, 90.0), (None, 45.0)])
async def test_a_job_lapses_when_its_lease_after_the_last_beat_is_over(store, clock, lease, rule):
    """Not at the end of the lease, but after it; and the caller's own lease goes before the queue's."""
    publish(store, mail=QueueRules(lease=rule))
    job_id = await one(store, lease=lease)
    assert await swept_for(store, clock, 30) == []
    await claim_one(store)
    beat(store)
    last_beat = store.now()
    length = lease or rule
    while store.now() + EVERY <= last_beat + length:
        clock.advance(EVERY)
        assert (await sweep(store)).lapsed == []
    clock.advance(last_beat + length - store.now())
    assert (await sweep(store)).lapsed == []
    clock.advance(0.001)
    assert [claim.id for claim in (await sweep(store)).lapsed] == [job_id]


async def test_a_claim_counts_as_a_beat_for_its_job(store, clock):
    """The worker's last heartbeat may be older than the lease of what it has just claimed."""
    job_id = await one(store, lease=5.0)
    assert await swept_for(store, clock, 30) == []
    clock.advance(EVERY)
    await claim_one(store)
    clock.advance(5.0)
    assert (await sweep(store)).lapsed == []
    clock.advance(0.001)
    assert [claim.id for claim in (await sweep(store)).lapsed] == [job_id]


async def test_what_lapsed_is_decided_and_runs_again(store, clock):
    job_id = await one(store)
    await swept_for(store, clock, 30)
    await claim_one(store)
    for _ in range(10):
        clock.advance(EVERY)
        await swept(store)
    view = await seen(store, job_id)
    assert (view.state, view.view, view.reason) == ("queued", "retry_pending", "worker_lost")
    [line] = view.history
    assert (line.landed, line.possible_duplicate, line.worker) == ("maybe", True, "worker-1")
    clock.advance(10)
    again = await claim_one(store, worker="worker-2")
    assert (again.attempts, again.token) == (2, 2)


async def test_what_lapsed_carries_all_a_decision_needs(store, clock):
    publish(store, mail=QueueRules(attempts=7, lease=40.0))
    await one(store, payload='{"a":1}', idempotency_key="k")
    await swept_for(store, clock, 30)
    claim = await claim_one(store)
    for _ in range(5):
        clock.advance(EVERY)
        found = await sweep(store)
    assert found.lapsed == [claim]
    assert found.rules["mail"].attempts == 7
    assert found.now == store.now()


async def test_a_worker_nobody_heard_of_is_lost(store, clock):
    job_id = await one(store)
    await swept_for(store, clock, 30, workers=())
    await claim_one(store, worker="never-beat")
    clock.advance(EVERY)
    assert [claim.id for claim in (await sweep(store)).lapsed] == [job_id]


async def test_after_a_gap_a_sweeper_waits_one_full_beat(store, clock):
    """The machine slept, or the store was away: live workers must be able to renew before anything is taken."""
    job_id = await one(store)
    await swept_for(store, clock, 30)
    await claim_one(store)
    clock.advance(10 * LEASE)
    assert (await sweep(store)).lapsed == []
    clock.advance(EVERY)
    assert (await sweep(store)).lapsed == []
    clock.advance(0.001)
    assert [claim.id for claim in (await sweep(store)).lapsed] == [job_id]


async def test_after_a_gap_a_worker_that_beats_again_keeps_its_jobs(store, clock):
    job_id = await one(store)
    await swept_for(store, clock, 30)
    await claim_one(store)
    clock.advance(10 * LEASE)
    assert (await sweep(store)).lapsed == []
    assert await swept_for(store, clock, 60) == []
    assert [held.id for held in beat(store).held] == [job_id]


async def test_the_first_sweep_ever_waits_too(store, clock):
    await one(store)
    await claim_one(store)
    clock.advance(10 * LEASE)
    assert (await sweep(store)).lapsed == []


@pytest.mark.parametrize(("missed", "lapsed"), [(3 * EVERY, 1), (3 * EVERY + 0.001, 0)])
async def test_a_gap_is_more_than_three_sweeps_missed(store, clock, missed, lapsed):
    await one(store, lease=1.0)
    await swept_for(store, clock, 30)
    await claim_one(store)
    clock.advance(missed)
    assert len((await sweep(store)).lapsed) == lapsed


async def test_a_sweep_finds_a_bounded_number_and_the_next_the_rest(store, clock):
    await enqueued(store, *(new_job() for _ in range(250)))
    await swept_for(store, clock, 30)
    await claimed(store, slots=250)
    for _ in range(10):
        clock.advance(EVERY)
        found = await sweep(store)
    assert len(found.lapsed) == 200
    await swept(store)
    assert (await sweep(store)).lapsed == []


async def test_a_worker_that_leaves_is_off_the_list(store):
    beat(store, "worker-1")
    await store.write(upkeep.retire, Counted("worker-1", 0, {}))
    assert [
        worker.id
        for worker in (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).workers
    ] == []


async def test_a_worker_that_leaves_with_jobs_stays_until_they_lapse(store, clock):
    job_id = await one(store)
    await swept_for(store, clock, 30)
    claim = await claim_one(store)
    await store.write(upkeep.retire, Counted("worker-1", 0, {}))
    clock.advance(EVERY)
    assert (await sweep(store)).lapsed == []
    await ended(store, claim, NotEntered("x"))
    await store.write(upkeep.retire, Counted("worker-1", 0, {}))
    claim = await claim_one(store)
    clock.advance(EVERY)
    assert [found.id for found in (await sweep(store)).lapsed] == [job_id]
    assert await ended(store, claim, Succeeded())


async def test_two_sweepers_do_no_harm(store, clock, look):
    """Both find the same job and decide alike; it is moved once."""
    await one(store)
    await swept_for(store, clock, 30)
    await claim_one(store)
    for _ in range(9):
        clock.advance(EVERY)
        await sweep(store)
    clock.advance(EVERY)
    found, found_too = await sweep(store), await sweep(store)
    [claim] = found.lapsed
    assert found_too.lapsed == [claim]
    assert [await ended(store, claim, Lapsed()), await ended(store, claim, Lapsed())] == [True, True]
    assert look("SELECT value FROM counter WHERE name = 'retry'") == [(1,)]


@pytest.mark.parametrize("together", [False, True])
async def test_the_late_failure_of_a_worker_that_lost_its_job_is_not_told_as_written(store, together):
    """Both lead back to the queue, under the same token: only the history tells which of them was written."""
    job_id = await one(store)
    claim = await claim_one(store)
    lapse = settle(claim, Lapsed(alone=True), DEFAULTS, roll=0.0)
    late = settle(claim, failed(), DEFAULTS, roll=0.0)
    if together:
        assert await store.write_all(apply, [lapse, late]) == [True, False]
    else:
        assert await store.write_all(apply, [lapse]) == [True]
        assert await store.write_all(apply, [late]) == [False]
    assert await store.write_all(apply, [lapse]) == [True], "handed in again, it is there already"
    assert [line.reason_code for line in (await seen(store, job_id)).history] == ["worker_lost"]


@pytest.mark.parametrize("outcome", [Snooze(0.0), Drained()], ids=lambda outcome: type(outcome).__name__)
async def test_a_late_end_under_a_reused_attempt_number_is_not_told_as_written(store, outcome):
    """What is given back uses its attempt's number again: the token tells the two apart."""
    await one(store)
    assert await ended(store, await claim_one(store), outcome)
    again = await claim_one(store)
    assert await ended(store, again, Lapsed(alone=True))
    assert not await ended(store, again, outcome)


@pytest.mark.parametrize("outcome", [Drained(), Lapsed(alone=False)], ids=lambda outcome: type(outcome).__name__)
async def test_an_attempt_that_ran_and_was_cancelled_is_not_said_to_be_not_begun(store, outcome):
    job_id = await one(store)
    claim = await claim_one(store)
    assert await store.write(operations.ask_to_stop, (job_id, "anna"))
    assert await ended(store, claim, outcome)
    line = (await seen(store, job_id)).history[-1]
    assert (line.begun, line.attempt, line.landed) == (True, 1, "maybe")


async def test_a_claim_that_never_entered_its_handler_is_said_to_be_not_begun(store):
    job_id = await one(store)
    assert await ended(store, await claim_one(store), NotEntered("drain"))
    assert [(line.begun, line.attempt) for line in (await seen(store, job_id)).history] == [(False, 0)]
