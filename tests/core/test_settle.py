"""What becomes of an attempt: every outcome, under every replay mode, with attempts left and without."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.failure import Class, Failure, Landed, reason
from standfast.job import Claim, Details, LedgerEntry
from standfast.lifecycle import JobRef, Move, State, Transition
from standfast.outcome import (
    Cancel,
    Drained,
    Failed,
    Lapsed,
    Misfit,
    NotEntered,
    NotStarted,
    Outcome,
    Snooze,
    Succeeded,
    TimedOut,
    Unconsented,
)
from standfast.rules import QueueRules, exponential, fixed
from standfast.spine.settle import Settle, age_reason, given_back
from standfast.wings.isolation.rules import StartFailure
from standfast.wings.policy.triage import outlived
from standfast.worker.settling import settle, too_old
from tests.core.carried import is_duplicate, is_in_place, is_suspect, triage_of

RULES = QueueRules(backoff=exponential(base=2, cap=300))
DAY = 86400.0
MODES = ("replay", "verify_first", "manual")


def claim(mode: str = "replay", *, attempts: int = 1, max_attempts: int = 5, **given: Any) -> Claim:
    fields = {
        "n": 11,
        "token": 7,
        "id": "job-1",
        "queue": "mail",
        "handler": "send",
        "worker": "worker-1",
        "payload": "{}",
        "attempts": attempts,
        "max_attempts": max_attempts,
        "round_start": 0,
        "lease": 90.0,
        "timeout": 900.0,
        "replay_mode": mode,
        "claimed_at": 1000.0,
        "entered_at": 900.0,
        "expires_at": None,
        "idempotency_key": None,
        "details": Details(),
    }
    return Claim(**{**fields, **given})


def failed(cls: str, landed: str, code: str = "rate_limited", retry_after: float | None = None) -> Failed:
    failure = Failure(cls=Class(cls), landed=Landed(landed), reason_code=code, error_kind="Kind", message="it broke")
    return Failed(failure, retry_after)


def told(transition: Transition) -> str:
    """Word a decision: what happens, and for a failure its class, landed and reason."""
    failure = transition.failure
    if failure is None:
        return transition.move
    return f"{transition.move} {failure.cls} {failure.landed} {failure.reason_code}"


def decided(held: Claim, outcome: Outcome, roll: float = 0.0) -> Transition:
    return settle(held, outcome, RULES, roll)


# --- who decides


@pytest.mark.parametrize(
    "outcome",
    [Succeeded("1"), Snooze(3.0), Cancel("why"), NotEntered("drain"), Drained(), failed("transient", "no")],
)
def test_a_plain_end_is_decided_by_the_spine_alone_as_it_is_with_all_wings(outcome):
    assert Settle()(claim(), outcome, RULES, 0.0) == decided(claim(), outcome)


def test_an_end_that_only_a_wing_knows_is_not_taken_for_another_where_the_wing_is_missing():
    with pytest.raises(TypeError, match="nothing decides what follows from Unconsented"):
        Settle()(claim(), Unconsented("nobody consented"), RULES, 0.0)
    assert told(decided(claim(), Unconsented("nobody consented"))) == "hold permanent no consent_required"


# --- what happens


@pytest.mark.parametrize("exhausted", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Succeeded("1"), "complete"),
        (Snooze(5.0), "snooze"),
        (Cancel("why"), "cancel"),
        (Misfit("no field"), "die permanent no schema_invalid"),
        (NotEntered("x"), "give_back"),
        (failed("permanent", "no"), "die permanent no rate_limited"),
    ],
)
def test_what_neither_mode_nor_attempts_change(outcome, expected, mode, exhausted):
    held = claim(mode, attempts=5 if exhausted else 1)
    assert held.exhausted is exhausted
    assert told(decided(held, outcome)) == expected


REPEATED = {
    failed("transient", "no"): "retry transient no rate_limited",
    failed("transient", "maybe"): "retry transient maybe rate_limited",
    failed("unknown", "no"): "retry unknown no rate_limited",
    failed("unknown", "maybe"): "retry unknown maybe rate_limited",
    TimedOut(): "retry transient maybe timeout",
    Lapsed(): "retry transient maybe worker_lost",
}


@pytest.mark.parametrize("mode", ["replay", "verify_first"])
@pytest.mark.parametrize(("outcome", "expected"), REPEATED.items())
def test_a_failure_is_repeated_while_attempts_are_left(outcome, expected, mode):
    """An unknown class is repeated like a transient one; `landed` decides nothing here."""
    for attempts in (1, 4):
        assert told(decided(claim(mode, attempts=attempts), outcome)) == expected


@pytest.mark.parametrize("mode", ["replay", "verify_first"])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (failed("transient", "no"), "die transient no max_attempts"),
        (failed("transient", "maybe"), "die transient maybe max_attempts"),
        (failed("unknown", "maybe"), "die unknown maybe max_attempts"),
        (TimedOut(), "die transient maybe max_attempts"),
        (Lapsed(), "die transient maybe worker_lost"),
        (failed("permanent", "maybe"), "die permanent maybe rate_limited"),
    ],
)
def test_the_last_attempt_ends_dead_with_its_own_class_and_landed(outcome, expected, mode):
    assert told(decided(claim(mode, attempts=5), outcome)) == expected


@pytest.mark.parametrize("attempts", [1, 5])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (failed("transient", "no"), "die transient no rate_limited"),
        (failed("unknown", "no"), "die unknown no rate_limited"),
        (failed("permanent", "no"), "die permanent no rate_limited"),
        (failed("transient", "maybe"), "die transient maybe unknown_commit_state"),
        (failed("unknown", "maybe"), "die unknown maybe unknown_commit_state"),
        (failed("permanent", "maybe"), "die permanent maybe unknown_commit_state"),
        (TimedOut(), "die transient maybe unknown_commit_state"),
        (Lapsed(), "die transient maybe unknown_commit_state"),
        (Drained(), "die transient maybe unknown_commit_state"),
    ],
)
def test_a_manual_handler_runs_once_by_itself(outcome, expected, attempts):
    assert told(decided(claim("manual", attempts=attempts), outcome)) == expected


@pytest.mark.parametrize(
    ("mode", "attempts", "expected"),
    [
        ("replay", 1, "give_back"),
        ("replay", 5, "give_back"),
        ("verify_first", 1, "retry transient maybe drained"),
        ("verify_first", 5, "die transient maybe max_attempts"),
        ("manual", 1, "die transient maybe unknown_commit_state"),
    ],
)
def test_a_drain_gives_back_only_what_may_simply_run_again(mode, attempts, expected):
    assert told(decided(claim(mode, attempts=attempts), Drained())) == expected


# --- what it costs


@pytest.mark.parametrize(
    ("outcome", "spends", "defers"),
    [
        (Succeeded(), 0, 0),
        (failed("transient", "no"), 0, 0),
        (failed("permanent", "no"), 0, 0),
        (TimedOut(), 0, 0),
        (Lapsed(), 0, 0),
        (Cancel(), 0, 0),
        (Snooze(5.0), -1, 1),
        (NotEntered("x"), -1, 1),
        (Drained(), -1, 1),
        (Misfit("no field"), -1, 0),
    ],
)
def test_what_entered_the_handler_spends_an_attempt_and_what_was_given_back_does_not(outcome, spends, defers):
    """The claim counted the attempt; a decision only ever takes that back."""
    transition = decided(claim(), outcome)
    assert (transition.spends, transition.defers) == (spends, defers)


def test_a_drained_attempt_of_another_mode_is_spent():
    assert decided(claim("verify_first"), Drained()).spends == 0
    assert decided(claim("manual"), Drained()).spends == 0


# --- when it runs again


@pytest.mark.parametrize(("attempts", "start", "expected"), [(1, 0, 2), (2, 0, 4), (4, 0, 16), (7, 5, 4), (6, 5, 2)])
def test_the_backoff_counts_the_repeats_of_the_round(attempts, start, expected):
    held = claim(attempts=attempts, max_attempts=99, round_start=start)
    assert decided(held, failed("transient", "no")).delay == expected


def test_the_backoff_is_the_rules_and_jittered():
    rules = QueueRules(backoff=fixed(10))
    assert settle(claim(), Lapsed(), rules, 0.0).delay == 10.0
    assert settle(claim(), Lapsed(), rules, 0.5).delay == 9.5


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(0.0, 0.0), (7.25, 7.25), (DAY - 1, DAY - 1), (DAY, DAY), (DAY + 1, DAY), (1e12, DAY), (-5.0, 0.0)],
)
@pytest.mark.parametrize("roll", [0.0, 0.999])
def test_retry_after_replaces_the_backoff_exactly_up_to_a_day(asked, expected, roll):
    assert decided(claim(), failed("transient", "no", retry_after=asked), roll).delay == expected


def test_retry_after_does_not_give_another_attempt():
    assert (
        told(decided(claim(attempts=5), failed("transient", "no", retry_after=5.0))) == "die transient no max_attempts"
    )


def test_a_drain_that_cuts_an_entered_handler_leaves_it_open_whether_it_acted():
    """Nothing is spent, but the next run may double the effect; what was never entered cannot."""
    cut = decided(claim(), Drained())
    assert (cut.effect, is_duplicate(cut), cut.failure) == (Landed.MAYBE, True, None)
    unentered = decided(claim(), NotEntered("drain"))
    assert (unentered.effect, is_duplicate(unentered)) == (None, False)


@pytest.mark.parametrize("seconds", [0.0, 2.5, 3600.0, 7 * DAY, 1e10])
def test_a_snooze_waits_as_long_as_it_says(seconds):
    assert decided(claim(), Snooze(seconds), 0.9).delay == seconds


def test_what_is_given_back_is_due_at_once():
    assert decided(claim(), NotEntered("x")).delay == decided(claim(), Drained()).delay == 0.0


def test_a_job_whose_process_cannot_start_waits_ever_longer_up_to_a_minute_and_says_why():
    ends = [decided(claim(), NotStarted("no memory", times)) for times in (1, 2, 3, 6, 7, 40)]
    assert [each.delay for each in ends] == [1, 2, 4, 32, 60, 60]
    assert {(told(each), each.spends, each.defers, each.begun, each.effect) for each in ends} == {
        ("give_back", -1, 1, False, None)
    }
    assert decided(claim(), NotStarted("no memory", 7), 0.9).delay < 60
    [why] = [each for each in ends[0].carries if isinstance(each, StartFailure)]
    assert (why.history_word, why.history_marks) == ("process_not_started", {"message": "no memory"})


def test_a_suspect_whose_process_cannot_start_is_a_suspect_still():
    assert is_suspect(decided(claim(suspect=1), NotStarted("no memory"))) is None


# --- what is written


@pytest.mark.parametrize(("landed", "expected"), [("maybe", True), ("no", False)])
def test_a_repeat_that_may_double_the_effect_is_marked_before_it_starts(landed, expected):
    assert is_duplicate(decided(claim(), failed("transient", landed))) is expected


@pytest.mark.parametrize("outcome", [failed("transient", "maybe"), failed("permanent", "maybe")])
def test_what_ends_dead_is_no_possible_duplicate(outcome):
    assert not is_duplicate(decided(claim(attempts=5), outcome))


@pytest.mark.parametrize("outcome", [failed("permanent", "no"), Misfit("no field"), failed("permanent", "maybe")])
def test_every_death_has_its_triage(outcome):
    transition = decided(claim(), outcome)
    assert transition.failure is not None
    triage = triage_of(transition)
    assert triage is not None
    assert triage.action == reason(transition.failure.reason_code).action


@pytest.mark.parametrize("code", ["max_attempts", "worker_lost", "unknown_commit_state", "schema_invalid"])
def test_a_reason_that_is_given_here_brings_its_advice(code):
    ends: dict[str, tuple[Claim, Outcome]] = {
        "max_attempts": (claim(attempts=5), failed("transient", "no")),
        "worker_lost": (claim(attempts=5), Lapsed()),
        "unknown_commit_state": (claim("manual"), TimedOut()),
        "schema_invalid": (claim(), Misfit("no field")),
    }
    failure = decided(*ends[code]).failure
    assert failure is not None
    assert (failure.reason_code, failure.advice) == (code, reason(code).advice)


def test_exhaustion_keeps_what_the_last_attempt_said():
    failure = decided(claim(attempts=5), failed("unknown", "maybe")).failure
    assert failure is not None
    assert (failure.error_kind, failure.message) == ("Kind", "it broke")


def test_a_result_and_its_warning_are_handed_on():
    transition = decided(claim(), Succeeded('{"a":1}', "result_not_stored"))
    assert (transition.result, transition.warning) == ('{"a":1}', "result_not_stored")
    assert decided(claim(), Cancel("why")).warning == "why"
    assert decided(claim(), Cancel()).warning is None


@pytest.mark.parametrize("outcome", [Succeeded(), Lapsed(), NotEntered("x"), Misfit("x"), Snooze(1.0), Cancel()])
def test_a_decision_names_the_attempt_it_ends(outcome):
    transition = decided(claim(attempts=3), outcome)
    assert (transition.n, transition.token, transition.id, transition.queue) == (11, 7, "job-1", "mail")
    assert (transition.attempt, transition.worker, transition.source) == (3, "worker-1", State.RUNNING)


# --- growing too old


@pytest.mark.parametrize(
    ("entered_at", "expires_at", "max_age", "now", "expected"),
    [
        (0.0, None, None, 1e9, None),
        (0.0, None, 60.0, 59.999, None),
        (0.0, None, 60.0, 60.0, "max_age"),
        (0.0, 60.0, None, 59.999, None),
        (0.0, 60.0, None, 60.0, "expired"),
        (0.0, 60.0, 60.0, 60.0, "max_age"),
        (0.0, 30.0, 60.0, 30.0, "expired"),
        (50.0, None, 60.0, 60.0, None),
    ],
)
def test_why_a_job_may_no_longer_start(entered_at, expires_at, max_age, now, expected):
    assert age_reason(entered_at, expires_at, max_age, now) == expected


def test_a_job_claimed_too_late_dies_without_spending_its_attempt():
    held = claim(entered_at=900.0, expires_at=990.0)
    assert too_old(held, QueueRules(max_age=101.0), 989.0) is None
    for rules, expected in ((QueueRules(max_age=100.0), "max_age"), (RULES, "expired")):
        transition = too_old(held, rules, 1000.0)
        assert transition is not None
        assert told(transition) == f"die permanent no {expected}"
        assert (transition.spends, transition.defers) == (-1, 0)
        assert triage_of(transition) is not None


def test_a_job_that_outlived_its_time_in_the_queue_dies_there():
    transition = outlived(JobRef(11, 7, "job-1", "mail", State.QUEUED), "max_age")
    assert (transition.move, transition.source, transition.spends) == (Move.DIE, State.QUEUED, 0)
    assert told(transition) == "die permanent no max_age"
    assert triage_of(transition) is not None


def test_a_claim_that_never_arrived_is_given_back():
    transition = given_back(JobRef(11, 7, "job-1", "mail", State.RUNNING))
    assert (transition.move, transition.source) == (Move.GIVE_BACK, State.RUNNING)
    assert (transition.spends, transition.defers, transition.delay) == (-1, 1, 0.0)


# --- suspects


def test_a_job_that_died_with_its_worker_in_company_spends_nothing_and_keeps_its_place():
    decided = settle(claim(attempts=5, landed=None), Lapsed(alone=False), RULES, 0.0)
    assert (decided.move, decided.spends, decided.delay, is_in_place(decided)) == (Move.RETRY, -1, 0.0, True)
    assert is_suspect(decided)
    assert is_duplicate(decided), "it may have done its work all the same"
    assert decided.failure is not None
    assert (decided.failure.reason_code, decided.failure.landed) == ("worker_lost", "maybe")


def test_a_job_that_died_alone_with_its_worker_spends_its_attempt():
    decided = settle(claim(), Lapsed(), RULES, 0.0)
    assert (decided.move, decided.spends, is_in_place(decided)) == (Move.RETRY, 0, False)
    assert decided.delay > 0
    assert is_suspect(decided)
    last = settle(claim(attempts=5), Lapsed(), RULES, 0.0)
    assert last.failure is not None
    assert (last.move, last.failure.reason_code, is_suspect(last)) == (Move.DIE, "worker_lost", True)


@pytest.mark.parametrize(
    ("held", "reason_code"),
    [
        (claim("manual"), "unknown_commit_state"),
        (claim("manual", ledger=[LedgerEntry("mark", "done", "1")]), "worker_lost"),
        (claim(handler="http", payload='{"method":"POST"}'), "unknown_commit_state"),
    ],
)
def test_what_may_not_be_repeated_by_itself_dies_also_in_company(held, reason_code):
    decided = settle(held, Lapsed(alone=False), RULES, 0.0)
    assert decided.failure is not None
    assert (decided.move, decided.failure.reason_code, decided.spends) == (Move.DIE, reason_code, 0)


def test_what_is_looked_for_first_is_no_possible_duplicate_in_company():
    decided = settle(claim("verify_first"), Lapsed(alone=False), RULES, 0.0)
    assert (decided.move, decided.spends, decided.effect, is_duplicate(decided)) == (
        Move.RETRY,
        -1,
        Landed.MAYBE,
        False,
    )


@pytest.mark.parametrize(
    ("outcome", "suspect"),
    [
        (Succeeded(), False),
        (failed("transient", "no"), False),
        (Snooze(1.0), False),
        (TimedOut(), False),
        (Drained(), None),
        (NotEntered("drain"), None),
        (Lapsed(), True),
        (Lapsed(alone=False), True),
    ],
)
def test_a_suspect_is_one_until_an_attempt_shows_that_it_does_not_kill(outcome, suspect):
    assert is_suspect(settle(claim(suspect=1), outcome, RULES, 0.0)) is suspect
