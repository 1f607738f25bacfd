"""Idempotency keys: a repeat finds the first job, for as long as it could do harm."""

from __future__ import annotations

import asyncio

import pytest

from standfast.errors import IdempotencyConflict
from standfast.failure import Class
from standfast.job import Receipt
from standfast.outcome import Cancel, Succeeded
from standfast.rules import QueueRules
from standfast.spine import intake
from standfast.spine.claim_requests import Conflict
from standfast.testing import memory
from standfast.wings.letters.dead_jobs import in_conflict
from standfast.wings.records import reads
from standfast.wings.relay import scripts as forward
from standfast.wings.relay.scripts import Forward
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import claim_one, claimed, ended, enqueued, failed, new_job, one, publish

DAY = 86400.0
WEEK = 7 * DAY


def keyed(payload="{}", key="k", queue="mail", **given):
    return new_job(queue, payload, idempotency_key=key, **given)


async def hand_in(store, job):
    [answer] = await store.write_all(intake.enqueue, [job])
    return answer


async def test_a_repeat_gives_the_first_job_and_its_state(store):
    [first] = await enqueued(store, keyed())
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", "queued")
    claim = await claim_one(store)
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", "running")
    await ended(store, claim, Succeeded())
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", "completed")
    assert await claimed(store) == []


async def test_a_repeat_never_revives_a_dead_job(store):
    [first] = await enqueued(store, keyed())
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", "dead")
    assert await claimed(store) == []


async def test_another_payload_under_the_same_key_is_a_conflict_and_writes_nothing(store, look):
    [first] = await enqueued(store, keyed('{"a":1}'))
    before = look("SELECT count(*), max(n) FROM body"), look("SELECT * FROM idempotency"), look("SELECT * FROM journal")
    other = keyed('{"a":2}')
    assert await hand_in(store, other) == Conflict(first)
    assert await store.read(reads.job(other.id, store.boot())) is None
    assert before == (
        look("SELECT count(*), max(n) FROM body"),
        look("SELECT * FROM idempotency"),
        look("SELECT * FROM journal"),
    )


async def test_another_handler_under_the_same_key_is_a_conflict(store):
    [first] = await enqueued(store, keyed(handler="send"))
    assert await hand_in(store, keyed(handler="draft")) == Conflict(first)


@pytest.mark.parametrize(
    "difference", [{"priority": 9}, {"delay": 60.0}, {"at": 1e10}, {"expires": 1e10}, {"budget": 1}, {"lease": 5.0}]
)
async def test_only_handler_and_payload_make_a_difference(store, difference):
    [first] = await enqueued(store, keyed())
    assert await hand_in(store, keyed(**difference)) == Receipt(first, "duplicate", "queued")


async def test_the_same_key_in_two_queues_is_two_keys(store):
    ids = await enqueued(store, keyed(), keyed(queue="chat"))
    assert [claim.id for name in ("mail", "chat") for claim in await claimed(store, name)] == ids


async def test_repeats_inside_one_batch(store):
    jobs = [keyed('{"a":1}'), keyed('{"a":1}'), keyed('{"a":2}'), keyed('{"a":1}', key="other"), new_job()]
    first = jobs[0].id
    assert await store.write_all(intake.enqueue, jobs) == [
        Receipt(first, "accepted", "queued"),
        Receipt(first, "duplicate", "queued"),
        Conflict(first),
        Receipt(jobs[3].id, "accepted", "queued"),
        Receipt(jobs[4].id, "accepted", "queued"),
    ]
    assert [claim.id for claim in await claimed(store, slots=9)] == [first, jobs[3].id, jobs[4].id]


async def test_of_many_callers_at_once_one_is_accepted(store):
    """They share a few transactions; whichever comes first, the others find it, and its state."""
    answers = await asyncio.gather(*(hand_in(store, keyed()) for _ in range(50)))
    assert {(answer.id, answer.state) for answer in answers} == {(answers[0].id, "queued")}
    assert sorted(answer.outcome for answer in answers) == ["accepted", *["duplicate"] * 49]
    assert [claim.id for claim in await claimed(store, slots=9)] == [answers[0].id]


async def test_a_key_outlives_its_job_by_a_week(store, clock):
    [first] = await enqueued(store, keyed())
    await ended(store, await claim_one(store), Succeeded())
    clock.advance(WEEK - 1)
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", "completed")
    clock.advance(1)
    again = keyed()
    assert await hand_in(store, again) == Receipt(again.id, "accepted", "queued")
    assert await hand_in(store, keyed()) == Receipt(again.id, "duplicate", "queued")


async def test_a_key_outlives_the_pruning_of_its_job(store, clock):
    [first] = await enqueued(store, keyed())
    await ended(store, await claim_one(store), Succeeded())
    clock.advance(2 * DAY)
    await store.write(upkeep.prune, PruneRequest())
    assert await store.read(reads.job(first, store.boot())) is None
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", None)
    assert await hand_in(store, keyed('{"a":2}')) == Conflict(first)
    clock.advance(5 * DAY)
    await store.write(upkeep.prune, PruneRequest())
    again = keyed('{"a":2}')
    assert await hand_in(store, again) == Receipt(again.id, "accepted", "queued")


@pytest.mark.parametrize("given", [{}, {"thread_key": "t"}])
async def test_a_job_handed_in_again_does_not_run_again_once_it_is_pruned(store, clock, given):
    """Its first answer was lost, as a relay's is that dies before it forgets what it handed over."""
    job = keyed(**given)
    assert (await hand_in(store, job)).outcome == "accepted"
    await ended(store, await claim_one(store), Succeeded())
    assert (await hand_in(store, job)).outcome == "accepted"
    clock.advance(2 * DAY)
    await store.write(upkeep.prune, PruneRequest())
    assert await store.read(reads.job(job.id, store.boot())) is None
    assert await hand_in(store, job) == Receipt(job.id, "accepted", None)
    assert await claimed(store) == []
    store.write_all(forward.forward, [Forward(job, store.now() - DAY, in_conflict)]).result()
    assert await claimed(store) == []


async def test_a_cancelled_jobs_key_ends_like_a_completed_ones(store, clock):
    await enqueued(store, keyed())
    await ended(store, await claim_one(store), Cancel("no longer wanted"))
    clock.advance(WEEK)
    assert (await hand_in(store, keyed())).outcome == "accepted"


@pytest.mark.parametrize("end", ["queued", "running", "dead"])
async def test_a_key_never_ends_before_its_job_is_final(store, clock, end):
    [first] = await enqueued(store, keyed())
    if end != "queued":
        claim = await claim_one(store)
    if end == "dead":
        await ended(store, claim, failed(Class.PERMANENT))
    clock.advance(100 * WEEK)
    await store.write(upkeep.prune, PruneRequest())
    assert await hand_in(store, keyed()) == Receipt(first, "duplicate", end)


async def test_the_week_is_a_rule_of_the_queue(store, clock):
    publish(store, mail=QueueRules(keep_keys=60.0))
    await enqueued(store, keyed(), keyed(queue="chat"))
    for queue in ("mail", "chat"):
        await ended(store, await claim_one(store, queue), Succeeded())
    clock.advance(60)
    assert (await hand_in(store, keyed())).outcome == "accepted"
    assert (await hand_in(store, keyed(queue="chat"))).outcome == "duplicate"


async def test_an_expired_key_that_changed_hands_is_not_ended_by_its_first_job(store, clock):
    """A second job took the key over; only its own end starts the week again."""
    publish(store, mail=QueueRules(keep_keys=60.0, keep_completed=None))
    await enqueued(store, keyed())
    await ended(store, await claim_one(store), Succeeded())
    clock.advance(60)
    [second] = await enqueued(store, keyed())
    clock.advance(600)
    assert (await hand_in(store, keyed())).id == second


async def test_the_caller_is_told_of_a_conflict_and_of_the_job_that_has_the_key():
    async with memory() as sf:
        first = await sf.enqueue("mail", {"a": 1}, idempotency_key="k")
        assert await sf.enqueue("mail", {"a": 1}, idempotency_key="k") == (first.id, "duplicate", "queued")
        with pytest.raises(IdempotencyConflict, match="nothing was written") as caught:
            await sf.enqueue("mail", {"a": 2}, idempotency_key="k")
        assert caught.value.job_id == first.id
        assert [job.id for job in await sf.jobs()] == [first.id]


async def test_key_order_in_the_payload_makes_no_difference():
    async with memory() as sf:
        first = await sf.enqueue("mail", {"a": 1, "b": 2}, idempotency_key="k")
        assert (await sf.enqueue("mail", {"b": 2, "a": 1}, idempotency_key="k")).id == first.id


async def test_a_job_without_a_key_is_always_new(store):
    first, second = await one(store), await one(store)
    assert first != second
    assert len(await claimed(store, slots=9)) == 2
