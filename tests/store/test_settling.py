"""The end of an attempt: it lands once, only for whoever still owns the job, and with everything that belongs to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from standfast.failure import Class, Landed
from standfast.lifecycle import JobRef, Move, State, Transition
from standfast.outcome import Cancel, Drained, Lapsed, NotEntered, Outcome, Snooze, Succeeded
from standfast.rules import DEFAULTS, QueueRules, no_backoff
from standfast.spine.apply import apply
from standfast.spine.settle import given_back
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.records import reads
from standfast.worker.settling import settle
from tests.store.suite import (
    claim_one,
    claimed,
    ended,
    enqueued,
    everything,
    failed,
    journal,
    new_job,
    one,
    seen,
    states,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
AT_ONCE = QueueRules(backoff=no_backoff())
PERMANENT = failed(Class.PERMANENT, code="denied")
ENDS = [Succeeded("1"), failed(), PERMANENT, Snooze(5.0), Cancel("why"), NotEntered("x"), Drained(), Lapsed()]


def kinds(rows):
    return [[kind for kind, _, _ in entries] for entries in journal(rows)]


async def test_a_success_is_kept_with_its_result(store, clock):
    job_id = await one(store)
    claim = await claim_one(store)
    clock.advance(3)
    assert await ended(store, claim, Succeeded('{"sent":1}', "post_write_recovery"))
    view = await seen(store, job_id)
    assert (view.state, view.result, view.warning) == ("completed", {"sent": 1}, "post_write_recovery")
    assert (view.finished_at, view.worker, view.attempts) == (START + timedelta(seconds=3), None, 1)
    assert (view.failure, view.history, view.settled) == (None, [], True)


async def test_a_success_without_a_result_is_kept_too(store):
    job_id = await one(store)
    assert await ended(store, await claim_one(store), Succeeded())
    view = await seen(store, job_id)
    assert (view.state, view.result, view.warning) == ("completed", None, None)


async def test_a_cancellation_keeps_its_reason(store):
    job_id = await one(store)
    assert await ended(store, await claim_one(store), Cancel("no longer wanted"))
    view = await seen(store, job_id)
    assert (view.state, view.warning, view.failure, view.settled) == ("cancelled", "no longer wanted", None, True)


async def test_a_failure_waits_out_its_backoff_and_is_in_the_history(store, clock):
    job_id = await one(store)
    clock.advance(1)
    await ended(store, await claim_one(store, worker="worker-7"), failed(landed=Landed.MAYBE))
    view = await seen(store, job_id)
    assert (view.state, view.view, view.reason, view.worker) == ("queued", "retry_pending", "timeout", None)
    assert (view.due_at, view.ready_at) == (START + timedelta(seconds=3), None)
    [line] = view.history
    assert (line.attempt, line.at, line.worker) == (1, START + timedelta(seconds=1), "worker-7")
    assert (line.cls, line.landed, line.reason_code, line.message) == ("transient", "maybe", "timeout", "it broke")
    assert (line.delay, line.possible_duplicate) == (2.0, True)
    clock.advance(1.999)
    assert await claimed(store) == []
    clock.advance(0.001)
    assert (await claim_one(store)).attempts == 2


async def test_a_failing_job_goes_behind_waiting_work(store, clock):
    failing, *waiting = await enqueued(store, *(new_job() for _ in range(3)))
    clock.advance(1)
    claim = await claim_one(store)
    assert claim.id == failing
    await ended(store, claim, failed(), AT_ONCE)
    assert [each.id for each in await claimed(store, slots=9)] == [*waiting, failing]


@pytest.mark.parametrize(
    ("outcome", "delay", "told"),
    [(NotEntered("x"), 0.0, "given_back"), (Drained(), 0.0, "given_back"), (Snooze(5.0), 5.0, "snoozed")],
)
async def test_what_is_given_back_spends_no_attempt(store, clock, outcome, delay, told):
    job_id = await one(store)
    for times in (1, 2):
        claim = await claim_one(store)
        assert (claim.attempts, claim.token) == (1, times)
        assert await ended(store, claim, outcome)
        view = await seen(store, job_id)
        assert (view.state, view.attempts, view.deferrals) == ("queued", 0, times)
        begun = not isinstance(outcome, NotEntered)
        lines = [(line.begun, line.attempt, line.reason_code, line.cls, line.delay) for line in view.history]
        assert lines == [(begun, int(begun), told, None, delay)] * times
        assert view.failure is None
        clock.advance(delay)


async def test_a_worker_gives_back_what_it_never_knew_of(store):
    job_id = await one(store)
    claim = await claim_one(store)
    assert await store.write_all(
        apply, [given_back(JobRef(claim.n, claim.token, claim.id, claim.queue, State.RUNNING))]
    ) == [True]
    view = await seen(store, job_id)
    assert (view.state, view.attempts, view.deferrals) == ("queued", 0, 1)


async def test_attempts_never_fall_but_by_giving_back(store, clock):
    job_id = await one(store)
    counts = []
    for outcome in (failed(), NotEntered("x"), failed(), Snooze(1.0), failed()):
        await ended(store, await claim_one(store), outcome, AT_ONCE)
        counts.append((await seen(store, job_id)).attempts)
        clock.advance(1)
    assert counts == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("outcome", ENDS, ids=lambda each: type(each).__name__)
async def test_a_stale_token_lands_nowhere(store, look, outcome):
    """Another worker has the job: whatever the first one says now changes nothing, and it is told so."""
    job_id = await one(store)
    stale = await claim_one(store, worker="worker-1")
    await ended(store, stale, NotEntered("x"))
    fresh = await claim_one(store, worker="worker-2")
    before = everything(look)
    assert not await ended(store, stale, outcome, AT_ONCE)
    assert before == everything(look)
    assert (await seen(store, job_id)).worker == "worker-2"
    assert await ended(store, fresh, Succeeded())


@pytest.mark.parametrize("outcome", ENDS, ids=lambda each: type(each).__name__)
async def test_the_same_end_twice_lands_once_and_is_told_so_twice(store, look, outcome):
    """A commit nobody knew of is repeated with the same token."""
    await one(store)
    transition = settle(await claim_one(store), outcome, AT_ONCE, 0.0)
    assert await store.write_all(apply, [transition]) == [True]
    before = everything(look)
    assert await store.write_all(apply, [transition]) == [True]
    assert before == everything(look)


@pytest.mark.parametrize("outcome", ENDS, ids=lambda each: type(each).__name__)
async def test_the_same_end_twice_in_one_transaction_lands_once(store, look, outcome):
    job_id = await one(store)
    transition = settle(await claim_one(store), outcome, AT_ONCE, 0.0)
    assert await store.write_all(apply, [transition, transition]) == [True, True]
    assert (await seen(store, job_id)).attempts == 1 + transition.spends
    assert look("SELECT count(*) FROM history") in ([(0,)], [(1,)])
    assert [len(ids) for _, _, ids in journal(look("SELECT entries FROM journal"))[-1]] == [1]


async def test_of_two_ends_in_one_transaction_the_first_counts(store, look):
    """The worker's success and the sweeper's verdict on the same attempt may meet in one round."""
    job_id = await one(store)
    claim = await claim_one(store)
    done, lost = settle(claim, Succeeded("1"), DEFAULTS, 0.0), settle(claim, Lapsed(), AT_ONCE, 0.0)
    assert await store.write_all(apply, [done, lost]) == [True, False]
    assert await states(store, job_id) == ["completed"]
    assert kinds(look("SELECT entries FROM journal"))[-1] == ["completed"]
    assert look("SELECT count(*) FROM history") == [(0,)]


async def test_an_end_from_another_state_lands_nowhere(store):
    """The token is right, the state is not: a job that waits cannot complete, one that runs cannot grow too old."""
    job_id = await one(store)
    waiting = await store.read(reads.job(job_id, store.boot()))
    assert waiting is not None
    n, token = waiting.row.n, waiting.row.token
    assert await store.write_all(apply, [Transition(n, token, job_id, "mail", Move.COMPLETE)]) == [False]
    claim = await claim_one(store)
    assert await store.write_all(apply, [Transition(n, claim.token, job_id, "mail", Move.DIE, State.QUEUED)]) == [False]
    assert await states(store, job_id) == ["running"]


@pytest.mark.parametrize("number", [0, 999])
async def test_an_end_of_no_job_lands_nowhere(store, number):
    assert await store.write_all(apply, [Transition(number, 1, "nobody", "mail", Move.COMPLETE)]) == [False]


async def test_each_of_many_ends_is_answered_for_itself(store, clock):
    await enqueued(store, *(new_job() for _ in range(6)))
    claims = await claimed(store, slots=6)
    await ended(store, claims[1], NotEntered("x"))
    clock.advance(1)
    await claim_one(store)
    outcomes: list[Outcome] = [Succeeded("1"), Succeeded("2"), failed(), PERMANENT, Snooze(3.0), Cancel("why")]
    ends = [settle(claim, outcome, DEFAULTS, 0.0) for claim, outcome in zip(claims, outcomes, strict=True)]
    assert await store.write_all(apply, ends) == [True, False, True, True, True, True]
    assert await states(store, *(claim.id for claim in claims)) == [
        "completed",
        "running",
        "queued",
        "dead",
        "queued",
        "cancelled",
    ]


async def test_ends_wait_as_long_as_it_takes(store, monkeypatch):
    """Bookkeeping after an effect has no deadline: it is repeated until it is on disk, however late."""
    await one(store)
    claim = await claim_one(store)
    monkeypatch.setattr("standfast.store.store.PATIENCE", -1.0)
    assert await ended(store, claim, Succeeded())


async def test_every_transaction_is_one_journal_row_that_covers_every_job(store, look):
    mail = await enqueued(store, *(new_job() for _ in range(3)))
    chat = await one(store, "chat")
    claims = [*await claimed(store, slots=3), await claim_one(store, "chat")]
    outcomes: list[Outcome] = [Succeeded(), failed(), PERMANENT, Succeeded()]
    await store.write_all(
        apply, [settle(claim, end, DEFAULTS, 0.0) for claim, end in zip(claims, outcomes, strict=True)]
    )
    assert journal(look("SELECT entries FROM journal ORDER BY seq")) == [
        [("enqueued", "mail", mail)],
        [("enqueued", "chat", [chat])],
        [("claimed", "mail", mail)],
        [("claimed", "chat", [chat])],
        [
            ("completed", "mail", [mail[0]]),
            ("completed", "chat", [chat]),
            ("retry", "mail", [mail[1]]),
            ("dead_letter", "mail", [mail[2]]),
        ],
    ]
    assert sorted(look("SELECT queue, name, value FROM counter")) == [
        ("chat", "claimed", 1),
        ("chat", "completed", 1),
        ("chat", "enqueued", 1),
        ("mail", "claimed", 3),
        ("mail", "completed", 1),
        ("mail", "dead_letter", 1),
        ("mail", "enqueued", 3),
        ("mail", "retry", 1),
    ]


async def test_the_journal_grows_by_one_for_each_transaction_that_tells(store):
    before = await store.read(journal_scripts.last_journal_number())
    await one(store)
    assert await store.read(journal_scripts.last_journal_number()) == before + 1
    await claimed(store, "empty")
    assert await store.read(journal_scripts.last_journal_number()) == before + 1


async def test_of_two_ends_of_one_attempt_that_come_together_the_first_counts(store):
    ids = await enqueued(store, new_job(), new_job())
    first, other = await claimed(store, slots=2)
    ends = [
        settle(claim, Succeeded(result), DEFAULTS, 0.0) for claim, result in ((first, "1"), (first, "2"), (other, "3"))
    ]
    assert await store.write_all(apply, ends) == [True] * 3
    assert [(await seen(store, each)).result for each in ids] == [1, 3]
