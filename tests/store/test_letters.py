"""Dying: the reason, the triage, the history and the notice are one write, and the letter that is left is whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from standfast.failure import CATALOGUE, Action, Class, Failure, Landed, reason
from standfast.failure.letter_advice import LOOK_FIRST, as_letter, in_quarantine
from standfast.outcome import Failed, Lapsed, Misfit
from standfast.rules import DEFAULTS, QueueRules, fixed
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.views import Attempt, Triage
from standfast.wings.records import listing
from standfast.wings.records.listing import Filter
from standfast.worker.pruner import Pruner
from standfast.worker.settling import settle
from tests.store.suite import claim_one, ended, everything, failed, journal, new_job, one, publish, seen

START = datetime(2026, 1, 1, tzinfo=UTC)
DETAILS = '{"requester":"ann","session":"s1","risk":"high","labels":{"team":"a"}}'
QUICK = QueueRules(attempts=3, backoff=fixed(10), lease=30.0)


async def test_a_letter_is_whole(store, clock):
    """Capability 63: everything somebody needs to decide about it, and none of it expires before the letter."""
    publish(store, mail=QUICK)
    [receipt] = await store.write_all(
        intake.enqueue, [new_job(payload='{"to":"bob"}', details=DETAILS, idempotency_key="k")]
    )
    ends = [failed(), failed(Class.UNKNOWN, Landed.MAYBE, "unclassified_error"), failed(code="rate_limited")]
    for number, outcome in enumerate(ends, start=1):
        await ended(store, await claim_one(store, worker=f"worker-{number}"), outcome, QUICK)
        clock.advance(10)
    clock.advance("400d")
    await Pruner(store).prune()
    letter = await seen(store, receipt.id)
    assert (letter.state, letter.settled) == ("dead", True)
    assert (letter.payload, letter.idempotency_key) == ({"to": "bob"}, "k")
    assert (letter.requester, letter.session, letter.risk, letter.labels) == ("ann", "s1", "high", {"team": "a"})
    assert (letter.attempts, letter.max_attempts, letter.deferrals) == (3, 3, 0)
    assert (letter.created_at, letter.finished_at) == (START, START + timedelta(seconds=20))
    assert (letter.reason, letter.failure and letter.failure.plain) == (
        "max_attempts",
        Failure(
            cls=Class.TRANSIENT,
            landed=Landed.NO,
            reason_code="max_attempts",
            cause="rate_limited",
            message="it broke",
            advice=f"{LOOK_FIRST} {reason('max_attempts').advice}",
        ),
    )
    assert letter.first_failure is not None
    assert letter.first_failure.reason_code == "timeout"
    assert letter.triage == Triage(action=Action.MANUAL_REVIEW, rule="built-in", replay_status="pending_review")
    first, second, last = letter.history
    assert first == Attempt(
        attempt=1,
        at=START,
        cls="transient",
        landed="no",
        reason_code="timeout",
        message="it broke",
        delay=10.0,
        worker="worker-1",
    )
    assert (second.attempt, second.cls, second.landed, second.possible_duplicate) == (2, "unknown", "maybe", True)
    assert (last.attempt, last.at, last.worker) == (3, START + timedelta(seconds=20), "worker-3")
    assert (last.cls, last.landed, last.message, last.delay) == ("transient", "no", "it broke", None)


async def test_the_death_is_told_with_the_write_that_makes_it(store, look):
    job_id = await one(store)
    await ended(store, await claim_one(store), failed(Class.PERMANENT, code="denied"))
    assert journal(look("SELECT entries FROM journal"))[-1] == [("dead_letter", "mail", [job_id])]
    assert look("SELECT count(*) FROM ending WHERE failure IS NOT NULL AND triage IS NOT NULL") == [(1,)]
    assert look("SELECT count(*) FROM history") == [(1,)]


async def test_a_death_that_cannot_be_written_whole_is_not_written_at_all(store, look):
    """A failed dead-letter write loses nothing: the job is still running, and dies when it is tried again."""
    job_id = await one(store)
    claim = await claim_one(store)
    death = settle(claim, failed(Class.PERMANENT), DEFAULTS, 0.0)
    before = everything(look)
    with pytest.raises(ValueError, match="surrogates"):
        await store.write_all(apply, [msgspec.structs.replace(death, warning="\ud800")])
    assert before == everything(look)
    assert await store.write_all(apply, [death]) == [True]
    assert (await seen(store, job_id)).triage is not None


async def test_a_crash_loop_ends_as_worker_lost(store, clock):
    job_id = await one(store, budget=2)
    for _ in range(2):
        await ended(store, await claim_one(store), Lapsed())
        clock.advance(10)
    letter = await seen(store, job_id)
    assert (letter.state, letter.reason, letter.attempts) == ("dead", "worker_lost", 2)
    assert [(line.reason_code, line.landed) for line in letter.history] == [("worker_lost", "maybe")] * 2


async def test_a_payload_that_does_not_fit_dies_without_spending_its_attempt(store):
    job_id = await one(store)
    await ended(store, await claim_one(store), Misfit("no field `to`"))
    letter = await seen(store, job_id)
    assert (letter.state, letter.reason, letter.attempts) == ("dead", "schema_invalid", 0)
    assert letter.failure is not None
    assert letter.failure.message == "no field `to`"
    assert letter.triage is not None
    assert (letter.triage.action, letter.triage.replay_status) == ("quarantine", "quarantined")


@pytest.mark.parametrize("code", sorted(CATALOGUE))
async def test_every_reason_is_stored_with_its_advice_and_triage(store, code):
    job_id = await one(store)
    failure = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code=code, advice=reason(code).advice)
    await ended(store, await claim_one(store), Failed(failure))
    letter = await seen(store, job_id)
    assert letter.failure is not None
    worded = as_letter(failure)
    if reason(code).action == Action.QUARANTINE:
        worded = replace(worded, advice=f"{in_quarantine(None)} {worded.advice}")
    assert letter.failure.plain == worded
    assert letter.triage is not None
    assert letter.triage.action == reason(code).action


async def test_letters_are_listed_by_queue_and_state_newest_first(store):
    ids = [await one(store, queue) for queue in ("mail", "chat", "mail")]
    for queue in ("mail", "chat", "mail"):
        await ended(store, await claim_one(store, queue), failed(Class.PERMANENT))
    waiting = await one(store)
    found = (await store.read(listing.jobs(Filter(queue="mail", state="dead"), store.now()))).records
    assert [record.row.id for record in found] == [ids[2], ids[0]]
    assert [len(record.history) for record in found] == [1, 1]
    everything = (await store.read(listing.jobs(Filter(limit=2), store.now()))).records
    assert [record.row.id for record in everything] == [waiting, ids[2]]
    page = (await store.read(listing.jobs(Filter(limit=2, before=everything[-1].row.n), store.now()))).records
    assert [record.row.id for record in page] == [ids[1], ids[0]]
