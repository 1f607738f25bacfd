"""`max_depth`: a queue with so many jobs due refuses new ones, whole, and nothing of them stays behind."""

from __future__ import annotations

import pytest

from standfast.job import Receipt
from standfast.outcome import Succeeded
from standfast.rules import QueueRules
from standfast.spine import bulk, intake
from standfast.spine.claim_requests import Conflict, Full
from tests.store.suite import catch, claim_one, ended, enqueued, everything, new_job, publish


@pytest.fixture
def two(store):
    """Give a store whose queue takes two jobs."""
    publish(store, mail=QueueRules(max_depth=2))
    return store


def outcomes(answers):
    return [answer.outcome if isinstance(answer, Receipt) else type(answer).__name__ for answer in answers]


async def test_beyond_the_limit_nothing_is_written(two, look):
    await enqueued(two, new_job(), new_job())
    before = everything(look, "job", "body", "idempotency", "journal", "counter")
    assert await two.write_all(intake.enqueue, [new_job(idempotency_key="k")]) == [Full(2)]
    assert everything(look, "job", "body", "idempotency", "journal", "counter") == before


async def test_a_claim_makes_room(two):
    await enqueued(two, new_job(), new_job())
    await claim_one(two)
    assert outcomes(await two.write_all(intake.enqueue, [new_job(), new_job()])) == ["accepted", "Full"]


async def test_callers_of_one_round_share_the_room(two):
    assert outcomes(await two.write_all(intake.enqueue, [new_job(), new_job("post"), new_job(), new_job()])) == [
        *("accepted", "accepted", "accepted", "Full")
    ]


async def test_other_queues_and_queues_without_the_rule_take_on(two):
    await enqueued(two, new_job(), new_job(), *(new_job("post") for _ in range(50)))


async def test_what_is_not_due_takes_no_room(two):
    await enqueued(two, *(new_job(delay=60.0) for _ in range(2)))
    await enqueued(two, *(new_job(delay=60.0) for _ in range(2)))
    await enqueued(two, new_job(), new_job())


async def test_a_duplicate_is_never_refused(two):
    first = new_job(idempotency_key="k")
    await enqueued(two, first, new_job())
    assert await two.write_all(intake.enqueue, [new_job(idempotency_key="k")]) == [
        Receipt(first.id, "duplicate", "queued")
    ]
    assert await two.write_all(intake.enqueue, [new_job(payload="1", idempotency_key="k")]) == [Conflict(first.id)]


async def test_one_handed_in_again_after_an_unknown_commit_is_never_refused(two):
    first = new_job(idempotency_key="k")
    second = new_job(thread_key="t")
    await enqueued(two, first, second)
    assert outcomes(await two.write_all(intake.enqueue, [first, second])) == ["accepted", "accepted"]
    assert outcomes(await two.write_all(intake.enqueue, [new_job(idempotency_key="k")])) == ["duplicate"]


async def test_one_that_two_relays_hand_in_at_once_takes_one_place(two):
    jobs = [new_job(), new_job(), new_job()]
    assert outcomes(await two.write_all(intake.enqueue, [*jobs, *jobs])) == ["accepted", "accepted", "Full"] * 2


async def test_the_key_of_a_refused_job_is_free(two):
    await enqueued(two, new_job(), new_job())
    refused = await two.write_all(intake.enqueue, [new_job(idempotency_key="k"), new_job(idempotency_key="k")])
    assert refused == [Full(2), Full(2)]  # nobody may be told to follow a job that is not there
    await ended(two, await claim_one(two), Succeeded())
    assert outcomes(await two.write_all(intake.enqueue, [new_job(payload="other", idempotency_key="k")])) == [
        "accepted"
    ]


async def test_what_is_folded_into_a_waiting_job_is_never_refused(two):
    folds = {"thread_key": "t", "details": '{"coalesce":"latest"}'}
    await enqueued(two, new_job(**folds), new_job())
    assert outcomes(await two.write_all(intake.enqueue, [new_job(**folds)])) == ["coalesced"]
    assert outcomes(await two.write_all(intake.enqueue, [new_job(thread_key="u", idempotency_key="k")])) == ["Full"]
    await claim_one(two)
    assert outcomes(await two.write_all(intake.enqueue, [new_job(thread_key="u", idempotency_key="k")])) == ["accepted"]


async def test_several_together_are_stored_all_or_none(two, look):
    await enqueued(two, new_job())
    before = everything(look, "job", "body", "idempotency", "journal", "counter")
    assert await two.write(bulk.enqueue_bulk, [new_job(), new_job()]) == [Full(2), Full(2)]
    assert everything(look, "job", "body", "idempotency", "journal", "counter") == before
    assert outcomes(await two.write(bulk.enqueue_bulk, [new_job()])) == ["accepted"]
    assert len((await catch(two, slots=5)).claims) == 2
    assert look("SELECT value FROM counter WHERE name = 'enqueued'") == [(2,)]


async def test_several_together_find_their_duplicates(store):
    jobs = [new_job(idempotency_key="k"), new_job(idempotency_key="k")]
    assert outcomes(await store.write(bulk.enqueue_bulk, jobs)) == ["accepted", "duplicate"]


async def test_the_rule_holds_for_every_process_and_can_be_lifted(two):
    await enqueued(two, new_job(), new_job())
    publish(two, mail=QueueRules())
    await enqueued(two, new_job())
