"""Calls in the store: stored and claimed in one transaction, once, whoever else claims in it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from standfast.job import NewJob, Receipt
from standfast.outcome import NotEntered, Succeeded
from standfast.rules import DEFAULTS, Limit, QueueRules
from standfast.spine.claim_requests import ClaimRequest, Conflict, Full, QueueDemand
from standfast.spine.registry import Declaration
from standfast.store.store import Store
from standfast.wings.calls import scripts as calls
from standfast.wings.calls.hand_over import as_claimed
from standfast.wings.calls.scripts import AttemptElsewhere, Call, HandedOver
from standfast.worker.settling import settle
from tests.store.suite import (
    beat,
    begins_no_round,
    claim_one,
    claimed,
    ended,
    failed,
    new_job,
    one,
    publish,
    seen,
    swept,
)

ME = "caller-1"


async def called(store: Store, worker: str = ME, **given: Any) -> Any:
    return await store.write(calls.call, Call(new_job(**given), worker))


async def test_a_call_is_running_in_its_callers_hands_when_it_is_stored(store):
    publish(
        store, Declaration(queue="mail", name="mail", replay_mode="manual", timeout=7.0), mail=QueueRules(lease=9.0)
    )
    found = await called(store)
    claim = found.claim
    assert (claim.worker, claim.attempts, claim.token, claim.lease) == (ME, 1, 1, 9.0)
    assert (claim.replay_mode, claim.timeout, found.rules.lease) == ("manual", 7.0, 9.0)
    view = await seen(store, claim.id)
    assert (view.state, view.worker, view.attempts) == ("running", ME, 1)
    assert await claimed(store) == []
    assert await ended(store, claim, Succeeded('"done"'))
    assert (await seen(store, claim.id)).result == "done"


async def test_a_worker_that_claims_in_the_same_transaction_does_not_take_it(store):
    await one(store)
    with begins_no_round(store):
        taking = store.claim(ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 10),)))
        asked = asyncio.ensure_future(taking), asyncio.ensure_future(called(store))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    catch, call = [await each for each in asked]
    assert (len(catch.claims), call.claim.worker) == (1, ME)


async def test_a_call_handed_in_again_after_an_unknown_commit_is_the_same_call(store):
    call = Call(new_job(idempotency_key="k"), ME)
    first, again = [await store.write(calls.call, call) for _ in range(2)]
    assert (again.claim, again.answer.outcome) == (first.claim, "accepted")
    stranger = await store.write(calls.call, msgspec.structs.replace(call, worker="caller-2"))
    assert stranger.claim is None, "it is in another's hands"
    await ended(store, first.claim, NotEntered("drain"))
    assert (await store.write(calls.call, call)).claim is None, "whoever claims it next may have it"
    assert (await claim_one(store)).token == 2


@pytest.mark.parametrize("same", [True, False])
async def test_a_key_that_is_taken_starts_nothing(store, same):
    first = await called(store, idempotency_key="k")
    again = await called(store, idempotency_key="k", payload="{}" if same else "[]")
    assert again.claim is None
    assert isinstance(again.answer, Receipt if same else Conflict)
    assert (await seen(store, first.claim.id)).attempts == 1


async def test_a_full_queue_takes_no_call(store):
    publish(store, mail=QueueRules(max_depth=1))
    await one(store)
    found = await called(store)
    assert (found.answer, found.claim) == (Full(1), None)


async def test_what_a_limit_leaves_out_waits_and_its_place_is_given_on(store):
    publish(store, mail=QueueRules(concurrency=Limit(limit=1)))
    first, second = await called(store), await called(store)
    assert (second.claim, (await seen(store, second.answer.id)).state) == (None, "queued")
    assert await claimed(store) == [], "there is one place"
    await ended(store, first.claim, Succeeded())
    assert (await claim_one(store)).id == second.answer.id


async def test_a_call_whose_caller_falls_silent_lapses_like_any_job(store, clock):
    beat(store, ME)
    found = await called(store)
    await swept(store)
    for _ in range(12):
        clock.advance(10)
        beat(store)
        await swept(store)
    view = await seen(store, found.claim.id)
    assert (view.state, view.history[0].reason_code, view.attempts) == ("queued", "worker_lost", 1)


# --- handed over


def handed(job: NewJob) -> HandedOver:
    """Lay out a call that failed before, as its caller's process decides about it."""
    claim = as_claimed(job, DEFAULTS, 0.0, replay_mode="replay", timeout=None, handler_risk=None)
    end = settle(claim, failed(), DEFAULTS, roll=0.0)
    return HandedOver(job, AttemptElsewhere(end, job.handler, DEFAULTS, "replay", None))


async def test_a_call_that_failed_elsewhere_is_stored_with_its_attempt_once(store, clock):
    job = new_job()
    for _ in range(2):  # the second after an unknown commit
        assert await store.write(calls.hand_over, handed(job)) == Receipt(job.id, "accepted", "queued")
    view = await seen(store, job.id)
    assert (view.state, view.attempts, [line.reason_code for line in view.history]) == ("queued", 1, ["timeout"])
    assert await claimed(store) == [], "its backoff is to pass first"
    clock.advance(10)
    claim = await claim_one(store)
    assert (claim.attempts, claim.token, claim.max_attempts) == (2, 2, 5)
