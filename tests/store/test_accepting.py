"""Handing work in: it is stored as it was given, once, with the rules of its queue."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from standfast.errors import ConfigurationError, PayloadRejected
from standfast.job import Details, Receipt
from standfast.outcome import Succeeded
from standfast.rules import QueueRules
from standfast.spine import intake
from standfast.spine.payload import canonical, sha256
from standfast.testing import memory
from standfast.wings.records import reads
from tests.store.suite import claim_one, claimed, ended, enqueued, journal, new_job, one, publish, seen, states

START = datetime(2026, 1, 1, tzinfo=UTC)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=3)
    ),
    max_leaves=10,
)


async def test_what_is_handed_in_can_be_read_back(store):
    details = '{"requester":"ann","session":"s1","risk":"high","labels":{"team":"a"}}'
    job = new_job(payload='{"to":"bob"}', details=details, priority=3, budget=7, idempotency_key="k")
    assert await store.write_all(intake.enqueue, [job]) == [Receipt(job.id, "accepted", "queued")]
    view = await seen(store, job.id)
    assert (view.queue, view.handler, view.state, view.view) == ("mail", "mail", "queued", "queued")
    assert (view.payload, view.payload_sha256) == ({"to": "bob"}, sha256('{"to":"bob"}'))
    assert (view.priority, view.attempts, view.max_attempts, view.deferrals) == (3, 0, 7, 0)
    assert (view.requester, view.session, view.risk, view.labels) == ("ann", "s1", "high", {"team": "a"})
    assert view.idempotency_key == "k"
    assert view.created_at == view.first_seen_at == view.last_entered_at == view.due_at == view.ready_at == START
    assert (view.claimed_at, view.finished_at, view.worker, view.failure, view.history) == (None, None, None, None, [])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(payload=json_values)
async def test_a_worker_gets_the_payload_to_the_letter(store, payload):
    text = canonical(payload)
    await one(store, payload=text)
    claim = await claim_one(store)
    assert claim.payload == text
    assert await ended(store, claim, Succeeded())


async def test_a_worker_gets_who_asked_and_why(store):
    details = '{"requester":"ann","session":"s1","risk":"low","labels":{"a":"b"},"queue_reason":"scheduled_job"}'
    await one(store, details=details, idempotency_key="k")
    claim = await claim_one(store)
    expected = Details(requester="ann", session="s1", risk="low", labels={"a": "b"}, queue_reason="scheduled_job")
    assert (claim.details, claim.idempotency_key) == (expected, "k")


async def test_a_job_nobody_handed_in_is_not_there(store):
    assert await store.read(reads.job("nobody", store.boot())) is None


async def test_a_queue_nobody_declared_gets_the_defaults(store):
    job_id = await one(store, "unheard-of")
    view = await seen(store, job_id)
    assert (view.priority, view.max_attempts, view.expires_at) == (0, 5, None)
    claim = await claim_one(store, "unheard-of")
    assert (claim.max_attempts, claim.lease, claim.timeout, claim.replay_mode) == (5, 90.0, 900.0, "replay")


async def test_the_priority_is_the_queues_unless_the_caller_gives_one(store):
    publish(store, mail=QueueRules(priority=40))
    plain, own, zero = await enqueued(store, new_job(), new_job(priority=7), new_job(priority=0))
    assert [(await seen(store, job_id)).priority for job_id in (plain, own, zero)] == [40, 7, 0]


async def test_max_attempts_shows_the_rule_in_force_until_a_claim_stamps_it(store):
    job_id = await one(store)
    publish(store, mail=QueueRules(attempts=9))
    assert (await seen(store, job_id)).max_attempts == 9


async def test_a_delay_is_waited_out(store, clock):
    job_id = await one(store, delay=60.0)
    view = await seen(store, job_id)
    assert (view.view, view.due_at, view.ready_at) == ("scheduled", START + timedelta(seconds=60), None)
    clock.advance(59.999)
    assert await claimed(store) == []
    clock.advance(0.001)
    assert (await claim_one(store)).id == job_id


async def test_at_in_the_past_is_now(store, clock):
    job_id = await one(store, at=clock.wall() - 9999)
    assert (await seen(store, job_id)).due_at == START
    assert (await claim_one(store)).id == job_id


async def test_a_wall_clock_that_jumps_delays_nothing(store, clock):
    job_id = await one(store, delay=60.0)
    clock.jump_wall(-86400)
    clock.advance(60)
    assert (await claim_one(store)).id == job_id


@pytest.mark.parametrize(
    ("max_age", "expires", "expected"), [(None, 50, 50), (100, None, 100), (100, 50, 50), (100, 500, 100)]
)
async def test_a_job_expires_at_the_earlier_of_its_own_and_its_queues_limit(
    store, clock, max_age, expires, expected: float
):
    publish(store, mail=QueueRules(max_age=max_age))
    job_id = await one(store, expires=None if expires is None else clock.wall() + expires)
    assert (await seen(store, job_id)).expires_at == START + timedelta(seconds=expected)


async def test_the_same_id_handed_in_again_is_stored_once(store, look):
    """A caller whose commit nobody knew of hands the same jobs in again, beside new ones."""
    first, second, third = new_job(), new_job(idempotency_key="k"), new_job()
    await store.write_all(intake.enqueue, [first, second])
    again = await store.write_all(intake.enqueue, [first, second, third])
    assert [(answer.id, answer.outcome) for answer in again if isinstance(answer, Receipt)] == [
        (job.id, "accepted") for job in (first, second, third)
    ]
    assert [claim.id for claim in await claimed(store, slots=9)] == [first.id, second.id, third.id]
    assert look("SELECT value FROM counter WHERE name = 'enqueued'") == [(3,)]


async def test_the_same_id_handed_in_again_does_not_revive_it(store):
    job = new_job()
    await store.write_all(intake.enqueue, [job])
    assert await ended(store, await claim_one(store), Succeeded())
    await store.write_all(intake.enqueue, [job])
    assert await states(store, job.id) == ["completed"]
    assert await claimed(store) == []


async def test_many_are_one_transaction(store, look):
    ids = await enqueued(store, *(new_job() for _ in range(200)))
    [entries] = journal(look("SELECT entries FROM journal"))
    assert entries == [("enqueued", "mail", ids)]
    assert [claim.id for claim in await claimed(store, slots=200)] == ids


async def test_a_bad_one_fails_alone_and_takes_its_batch_with_it(store):
    """The store itself refuses a payload that is no text: whoever shares the transaction must not notice."""
    good = [new_job() for _ in range(20)]
    bad, beside_bad = new_job(payload=None), new_job()  # type: ignore[arg-type]
    calls = [store.write_all(intake.enqueue, [job]) for job in good]
    calls.insert(10, store.write_all(intake.enqueue, [beside_bad, bad]))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers.pop(10), Exception)
    assert answers == [[Receipt(job.id, "accepted", "queued")] for job in good]
    assert await store.read(reads.job(beside_bad.id, store.boot())) is None
    assert [claim.id for claim in await claimed(store, slots=99)] == [job.id for job in good]


async def test_enqueue_many_stores_all_or_none():
    async with memory() as sf:
        with pytest.raises(PayloadRejected):
            await sf.enqueue_many("mail", [{"a": 1}, {"a": {1, 2}}])
        assert await sf.jobs() == []
        receipts = await sf.enqueue_many("mail", [{"a": 1}, {"a": 2}], priority=5)
        assert [(job.id, job.payload, job.priority) for job in reversed(await sf.jobs())] == [
            (receipts[0].id, {"a": 1}, 5),
            (receipts[1].id, {"a": 2}, 5),
        ]


async def test_enqueue_many_under_one_key_for_two_payloads_writes_nothing():
    async with memory() as sf:
        with pytest.raises(ConfigurationError, match="nothing was written"):
            await sf.enqueue_many("mail", [{"a": 1}, {"a": 2}], idempotency_key="k")
        assert await sf.jobs() == []
        receipts = await sf.enqueue_many("mail", [{"a": 1}, {"a": 1}], idempotency_key="k")
        assert [receipt.outcome for receipt in receipts] == ["accepted", "duplicate"]


async def test_a_blocking_caller_gets_the_same(store):
    job = new_job()
    assert await asyncio.to_thread(store.write_all(intake.enqueue, [job]).result) == [
        Receipt(job.id, "accepted", "queued")
    ]
    assert (await claim_one(store)).id == job.id
