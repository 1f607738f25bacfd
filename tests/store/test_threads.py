"""Coalescing: what waits unclaimed takes a newcomer in, what was claimed before is never rewritten."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from standfast.failure import Class, Landed
from standfast.job import Receipt
from standfast.outcome import Drained, Succeeded
from standfast.rules import QueueRules, fixed
from standfast.spine import intake
from standfast.store.store import Store
from standfast.wings.records import reads
from standfast.worker.pruner import Pruner
from tests.store.suite import (
    claim_one,
    claimed,
    ended,
    failed,
    new_job,
    one,
    publish,
    replayed,
    seen,
    states,
    swept,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
LATEST = QueueRules(coalesce="latest", backoff=fixed(10))
COLLECT = QueueRules(coalesce="collect", backoff=fixed(10))
NEVER = QueueRules(coalesce="never", backoff=fixed(10))
DONE = Succeeded()
MAYBE = failed(landed=Landed.MAYBE)


@pytest.fixture(autouse=True)
def _latest(store: Store) -> None:
    """Have the queue fold, as most tests here ask."""
    publish(store, mail=LATEST)


async def arrive(store: Store, payload: Any = 1, thread_key: str = "pr-1", **given: Any) -> Receipt:
    """Store a job of a thread; give the receipt."""
    [answer] = await store.write_all(intake.enqueue, [new_job(payload=str(payload), thread_key=thread_key, **given)])
    assert isinstance(answer, Receipt)
    return answer


async def thread_job(store: Store, payload: Any = 1, **given: Any) -> str:
    """Store a job of a thread that must become one of its own; give its id."""
    receipt = await arrive(store, payload, **given)
    assert (receipt.outcome, receipt.state) == ("accepted", "queued")
    assert receipt.id is not None
    return receipt.id


async def retried(store: Store, outcome: Any = None, **given: Any) -> str:
    """Have a job of a thread that waits for its repeat; give its id."""
    job_id = await thread_job(store, **given)
    await ended(store, await claim_one(store), outcome or failed(), LATEST)
    assert (await seen(store, job_id)).view == "retry_pending"
    return job_id


# --- folding into a job that was never claimed


async def test_the_latest_payload_and_key_win_and_the_first_seen_time_stays(store, clock):
    """Capability 11."""
    first = await thread_job(store, '"old"', idempotency_key="k1", details='{"labels":{"trigger":"mention"}}')
    clock.advance(60)
    receipt = await arrive(store, '"new"', idempotency_key="k2", details='{"labels":{"trigger":"assign"}}')
    assert receipt == (first, "coalesced", "queued")
    job = await seen(store, first)
    assert (job.payload, job.idempotency_key, job.labels) == ("new", "k2", {"trigger": "assign"})
    assert (job.first_seen_at, job.created_at, job.ready_at, job.due_at) == (START,) * 4
    assert job.coalesced is not None
    assert job.coalesced == {
        "count": 1,
        "last": [
            {
                "at": START + timedelta(seconds=60),
                "by": job.coalesced["last"][0]["by"],
                "sha256": hashlib.sha256(b'"old"').hexdigest(),
                "key": "k1",
                "trigger": "mention",
            }
        ],
    }
    claim = await claim_one(store)
    assert (claim.payload, claim.idempotency_key) == ('"new"', "k2")
    assert claim.coalesced == job.coalesced, "the handler reads what a person reads"
    assert await claimed(store) == []


async def test_a_newcomer_without_a_key_takes_the_old_key_off_the_new_payload(store):
    first = await thread_job(store, 1, idempotency_key="k1")
    await arrive(store, 2)
    assert (await seen(store, first)).idempotency_key is None
    assert await arrive(store, 1, idempotency_key="k1") == (first, "duplicate", "queued")


@pytest.mark.parametrize(
    ("asked", "then", "expected"), [(50, 10, 50), (50, None, 50), (10, 50, 50), (None, None, 7), (3, None, 7)]
)
async def test_the_higher_priority_wins(store, asked, then, expected):
    """A job that asks for none has its queue's."""
    publish(store, mail=QueueRules(coalesce="latest", priority=7))
    first = await thread_job(store, priority=asked)
    await arrive(store, priority=then)
    assert (await seen(store, first)).priority == expected


async def test_the_earlier_due_time_wins(store, clock):
    first = await thread_job(store, delay=100.0)
    await arrive(store, delay=300.0)
    assert (await seen(store, first)).due_at == START + timedelta(seconds=100)
    await arrive(store, delay=50.0)
    assert (await seen(store, first)).due_at == START + timedelta(seconds=50)
    assert await claimed(store) == []
    clock.advance(10)
    await arrive(store, 2, at=START.timestamp() - 5000)
    job = await seen(store, first)
    assert job.due_at == job.ready_at == START + timedelta(seconds=10), "a time in the past gives no age"
    assert (await claim_one(store)).payload == "2"


async def test_folding_does_not_change_how_long_the_job_has_waited(store, clock):
    """Its age counts from when it was due and admitted, and a newcomer admits nothing."""
    publish(store, mail=NEVER)
    await thread_job(store)
    second = await thread_job(store)
    publish(store, mail=LATEST)
    clock.advance(60)
    await ended(store, await claim_one(store), DONE)
    assert (await arrive(store)).outcome == "coalesced"
    assert (await seen(store, second)).ready_at == START + timedelta(seconds=60)


async def test_the_expiry_is_the_newcomers(store, clock):
    """An accepted job must not die because of another one's deadline, nor outlive its own."""
    first = await thread_job(store, expires=START.timestamp() + 60)
    await arrive(store, 2)
    clock.advance(100)
    await swept(store)
    assert await states(store, first) == ["queued"]
    await arrive(store, 3, expires=START.timestamp() + 160)
    clock.advance(100)
    await swept(store)
    assert await states(store, first) == ["dead"]


async def test_the_last_fifty_are_remembered_and_all_are_counted(store):
    first = await thread_job(store, 0)
    for number in range(1, 61):
        await arrive(store, number)
    kept = (await seen(store, first)).coalesced
    assert kept is not None
    assert (kept["count"], len(kept["last"])) == (60, 50)
    assert [each["sha256"] for each in kept["last"]] == [
        hashlib.sha256(str(number).encode()).hexdigest() for number in range(10, 60)
    ]


async def test_one_round_folds_too_and_its_duplicates_name_the_carrier(store):
    first = await thread_job(store, 0)
    batch = [new_job(payload="1", thread_key="pr-1", idempotency_key="k") for _ in range(2)]
    answers = await store.write_all(intake.enqueue, batch)
    assert [tuple(answer) for answer in answers] == [(first, "coalesced", "queued"), (first, "duplicate", "queued")]


@pytest.mark.parametrize("other", [{"queue": "chat"}, {"handler": "other"}, {"thread_key": "pr-2"}])
async def test_another_queue_handler_or_thread_never_folds(store, other):
    first = await thread_job(store)
    second = await thread_job(store, 2, **other)
    assert [(await seen(store, job)).payload for job in (first, second)] == [1, 2]


async def test_threads_of_different_queues_are_independent(store):
    """Also where queue and thread together read the same."""
    first = await thread_job(store, queue="a:b", thread_key="c")
    second = await thread_job(store, queue="a", thread_key="b:c")
    assert [(await claim_one(store, queue)).id for queue in ("a:b", "a")] == [first, second]


# --- keys


async def test_every_accepted_key_outlives_its_carrier(store, clock):
    publish(store, mail=QueueRules(coalesce="latest", keep_keys=1000.0, keep_completed=100.0))
    carrier = await thread_job(store, 1, idempotency_key="k1")
    for number in (2, 3):
        await arrive(store, number, idempotency_key=f"k{number}")
    clock.advance(5000)
    await Pruner(store).prune()
    for number in (1, 2, 3):
        assert await arrive(store, number, idempotency_key=f"k{number}") == (carrier, "duplicate", "queued")
    await ended(store, await claim_one(store), DONE)
    assert await arrive(store, 1, idempotency_key="k1") == (carrier, "duplicate", "completed")
    clock.advance(500)
    await Pruner(store).prune()
    assert await store.read(reads.job(carrier, store.boot())) is None
    assert await arrive(store, 2, idempotency_key="k2") == (carrier, "duplicate", None)
    clock.advance(501)
    assert (await arrive(store, 2, idempotency_key="k2")).outcome == "accepted"


async def test_an_unknown_commit_does_not_fold_twice(store):
    publish(store, mail=COLLECT)
    first = await thread_job(store, 1)
    doubtful, later = (new_job(payload=number, thread_key="pr-1") for number in ("2", "3"))
    for job in (doubtful, later, doubtful):
        await store.write_all(intake.enqueue, [job])
    carrier = await seen(store, first)
    assert carrier.coalesced is not None
    assert (carrier.payload, carrier.coalesced["count"]) == ([1, 2, 3], 2)
    claim = await claim_one(store)
    assert await store.write_all(intake.enqueue, [doubtful]) == [Receipt(first, "coalesced", "running")]
    await ended(store, claim, DONE)
    assert await claimed(store) == []


async def test_an_unknown_commit_under_latest_keeps_what_came_since(store):
    first = await thread_job(store, 1)
    doubtful, later = (new_job(payload=number, thread_key="pr-1") for number in ("2", "3"))
    for job in (doubtful, later, doubtful):
        await store.write_all(intake.enqueue, [job])
    assert (await seen(store, first)).payload == 3


@pytest.mark.parametrize("rules", [LATEST, COLLECT, NEVER])
async def test_a_job_handed_in_again_is_here_once_whatever_became_of_it(store, rules):
    publish(store, mail=rules)
    job = new_job(payload="1", thread_key="pr-1")
    for state in ("queued", "running", "completed"):
        assert await store.write_all(intake.enqueue, [job]) == [Receipt(job.id, "accepted", state)]
        if state == "queued":
            claim = await claim_one(store)
        elif state == "running":
            await ended(store, claim, DONE)
    assert await claimed(store) == []


# --- a job that was claimed before


async def test_arrivals_while_running_are_kept_and_run_afterwards(store, clock):
    """Capability 12: one job of its own, with the oldest first-seen time and the highest priority."""
    first = await thread_job(store, 1, priority=50)
    running = await claim_one(store)
    clock.advance(5)
    second = await thread_job(store, 2, priority=10)
    assert await arrive(store, 3) == (second, "coalesced", "queued")
    assert await claimed(store) == []
    waiting = await seen(store, second)
    assert (waiting.view, waiting.priority, waiting.first_seen_at, waiting.payload) == ("parked", 50, START, 3)
    assert (waiting.created_at, waiting.parked_on) == (START + timedelta(seconds=5), "thread:mail:pr-1")
    assert await ended(store, running, DONE)
    assert (await claim_one(store)).id == second
    assert (await seen(store, first)).payload == 1


async def test_latest_supersedes_what_waits_for_its_repeat_at_once(store):
    older = await retried(store, priority=50)
    newer = await thread_job(store, 2)
    job = await seen(store, older)
    assert (job.state, job.superseded_by, job.payload, len(job.history)) == ("cancelled", newer, 1, 1)
    claim = await claim_one(store)
    assert (claim.id, claim.attempts) == (newer, 1)
    assert (await seen(store, newer)).priority == 50


async def test_what_may_have_landed_is_never_superseded(store, clock):
    older = await retried(store, MAYBE)
    newer = await thread_job(store, 2)
    assert (await seen(store, newer)).view == "parked"
    assert await claimed(store) == []
    clock.advance(10)
    for outcome in (failed(), DONE):
        claim = await claim_one(store)
        assert claim.id == older, "not even when a later attempt certainly did not land"
        await ended(store, claim, outcome, LATEST)
        clock.advance(10)
    assert (await claim_one(store)).id == newer


@pytest.mark.parametrize(("outcome", "state"), [(failed(), "cancelled"), (MAYBE, "queued"), (DONE, "completed")])
async def test_a_running_job_is_superseded_only_when_it_would_return(store, outcome, state):
    publish(store, mail=LATEST)
    older = await thread_job(store)
    running = await claim_one(store)
    newer = await thread_job(store, 2)
    assert await states(store, older) == ["running"]
    assert await ended(store, running, outcome, LATEST)
    job = await seen(store, older)
    assert (job.state, job.superseded_by) == (state, newer if state == "cancelled" else None)
    assert [claim.id for claim in await claimed(store)] == ([] if outcome is MAYBE else [newer])


@pytest.mark.parametrize(("outcome", "state"), [(failed(), "cancelled"), (MAYBE, "queued"), (Drained(), "queued")])
async def test_a_newer_job_takes_a_returning_ones_place_also_before_it_is_due(store, clock, outcome, state):
    publish(store, mail=LATEST)
    older = await thread_job(store)
    running = await claim_one(store)
    newer = await thread_job(store, 2, delay=60.0)
    assert await ended(store, running, outcome, LATEST)
    job = await seen(store, older)
    assert (job.state, job.superseded_by) == (state, newer if state == "cancelled" else None)
    clock.advance(60)
    assert (await claim_one(store)).id == (newer if state == "cancelled" else older)


async def test_what_was_claimed_before_takes_no_returning_ones_place(store):
    """Only a job nobody has begun can stand for what came before it."""
    publish(store, mail=NEVER)
    older, newer = [await thread_job(store, each) for each in (1, 2)]
    running = await claim_one(store)
    await ended(store, running, failed(Class.PERMANENT))
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    publish(store, mail=LATEST)
    for letter in (older, newer):
        await replayed(store, letter)
    running = await claim_one(store)
    assert running.id == older
    assert await ended(store, running, failed(), LATEST)
    assert [(await seen(store, each)).view for each in (older, newer)] == ["retry_pending", "parked"]


async def test_what_a_drain_cut_is_not_superseded_either(store):
    """It had been entered: nobody knows what it did."""
    publish(store, mail=LATEST)
    older = await thread_job(store)
    await ended(store, await claim_one(store), Drained(), LATEST)
    newer = await thread_job(store, 2)
    assert [(await seen(store, each)).view for each in (older, newer)] == ["queued", "parked"]
    assert [claim.id for claim in await claimed(store)] == [older]


async def test_only_a_job_of_the_same_handler_takes_a_returning_ones_place(store):
    older = await thread_job(store)
    running = await claim_one(store)
    other = await thread_job(store, 2, handler="other")
    await ended(store, running, failed(), LATEST)
    assert [(await seen(store, job)).view for job in (older, other)] == ["retry_pending", "parked"]


# --- collect


async def test_collect_appends_and_supersedes_nothing(store, clock):
    publish(store, mail=COLLECT)
    older = await thread_job(store, 1)
    await arrive(store, 2)
    running = await claim_one(store)
    assert running.payload == "[1,2]"
    newer = await thread_job(store, 3)
    await ended(store, running, failed(), COLLECT)
    assert await arrive(store, 4) == (newer, "coalesced", "queued")
    assert (await seen(store, older)).view == "retry_pending"
    clock.advance(10)
    for job_id, payload in ((older, "[1,2]"), (newer, "[3,4]")):
        claim = await claim_one(store)
        assert (claim.id, claim.payload) == (job_id, payload)
        await ended(store, claim, DONE)


async def test_a_full_collection_is_followed_by_another(store):
    """The cap counts bytes, and what comes next joins the newest collection: order is kept."""
    publish(store, mail=COLLECT)
    large = '"' + "ü" * 70_000 + '"'
    first = await thread_job(store, large)
    second = await thread_job(store, large)
    assert await arrive(store, 1) == (second, "coalesced", "queued")
    assert [len((await seen(store, job)).payload) for job in (first, second)] == [1, 2]


@pytest.mark.parametrize("before", [LATEST, NEVER])
async def test_what_waited_before_its_queue_collected_is_the_first_of_the_collection(store, before):
    publish(store, mail=before)
    first = await thread_job(store, '{"n":1}')
    publish(store, mail=COLLECT)
    for number in (2, 3):
        assert await arrive(store, f'{{"n":{number}}}') == (first, "coalesced", "queued")
    claim = await claim_one(store)
    assert (claim.payload, claim.details.collected) == ('[{"n":1},{"n":2},{"n":3}]', True)


async def test_a_collection_tells_that_it_is_one_whatever_the_rules_are_by_then(store):
    publish(store, mail=COLLECT)
    await thread_job(store, 1)
    await thread_job(store, 2, thread_key="pr-2")
    publish(store, mail=LATEST)
    await arrive(store, 3)
    found = [(claim.payload, claim.details.collected) for claim in await claimed(store, slots=2)]
    assert found == [("3", False), ("[2]", True)]


async def test_requests_are_never_collected(store):
    """A list of requests is no request: each is sent by itself, in order."""
    publish(store, mail=COLLECT)
    for number in (1, 2):
        await thread_job(store, f'{{"n":{number}}}', handler="http")
    assert (await claim_one(store, handlers=["http"])).payload == '{"n":1}'


# --- never


async def test_never_keeps_every_job_in_order(store):
    """Priority orders between threads only."""
    publish(store, mail=NEVER)
    ids = [await thread_job(store, number, priority=number) for number in range(3)]
    stranger = await one(store, priority=1)
    ran = []
    while claims := await claimed(store, slots=4):
        ran.append([claim.id for claim in claims])
        for claim in claims:
            await ended(store, claim, DONE)
    assert ran == [[stranger, ids[0]], [ids[1]], [ids[2]]]


async def test_a_repeat_under_never_goes_before_what_came_later(store, clock):
    publish(store, mail=NEVER)
    ids = [await thread_job(store, number) for number in range(2)]
    await ended(store, await claim_one(store), failed(), NEVER)
    assert await claimed(store) == []
    clock.advance(10)
    for job_id in ids:
        claim = await claim_one(store)
        assert claim.id == job_id
        await ended(store, claim, DONE)
