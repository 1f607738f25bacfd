"""Did it land? The arithmetic of verdicts, and what it means for a repeat."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from standfast.failure import Landed, Verdict
from standfast.failure.classify import of_result
from standfast.job import ASKED, LedgerEntry
from standfast.lifecycle import Move
from standfast.outcome import (
    Cancel,
    Drained,
    Failed,
    Lapsed,
    Look,
    LookFailed,
    Recovered,
    Snooze,
    TimedOut,
    Undetermined,
    Unfinished,
)
from standfast.wings.effects.findings import findings_of
from standfast.wings.effects.outcomes import LOOK_AGAIN
from standfast.wings.effects.rules import (
    after_doubt,
    before_repeat,
    combine,
    in_doubt,
    of_answer,
    of_ledger,
    result_of,
    resumes,
    scope,
    summary,
    undetermined_checks,
    with_looks,
)
from standfast.worker.settling import settle
from tests.core.carried import is_duplicate, triage_of
from tests.core.test_settle import RULES, claim, decided, failed, told

V, A, P, I = Verdict  # noqa: E741 - one letter each makes the table readable
BEGUN = LedgerEntry("ticket", "begun")
DONE = LedgerEntry("ticket", "done", '{"id":7}')
SEEN = LedgerEntry("ticket", "seen", None, "absent")
MODES = ("replay", "verify_first", "manual")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([V], V),
        ([V, V, V], V),
        ([A], A),
        ([A, A], A),
        ([P], P),
        ([V, A], P),
        ([A, V, V], P),
        ([V, P], P),
        ([A, P], P),
        ([I], I),
        ([V, I], I),
        ([A, I], I),
        ([P, I], I),
        ([V, A, P, I], I),
        ([], I),
    ],
)
def test_all_effects_together(verdicts, expected):
    assert combine(verdicts) == expected


def test_only_what_is_all_there_is_verified():
    for several in product(Verdict, repeat=3):
        assert (combine(several) == V) == (set(several) == {V})


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


NONSENSE: list[Any] = [None, 1, 0, "", "yes", "Verified", b"verified", [], {"verified": True}, Mute()]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, V),
        (False, A),
        *((str(verdict), verdict) for verdict in Verdict),
        *((verdict, verdict) for verdict in Verdict),
        *((nonsense, I) for nonsense in NONSENSE),
    ],
)
def test_what_a_check_answers(answer, expected):
    verdict, note = of_answer(answer)
    assert verdict == expected
    assert bool(note) == (verdict == I and answer != I)


@pytest.mark.parametrize(
    ("entry", "mode", "expected"),
    [
        *((DONE, mode, V) for mode in MODES),
        *((None, mode, A) for mode in MODES),
        *((SEEN, mode, A) for mode in MODES),
        (BEGUN, "replay", A),
        (BEGUN, "verify_first", I),
        (BEGUN, "manual", I),
        (LedgerEntry("ticket", "begun", None, ASKED), "manual", A),
        (LedgerEntry("ticket", "begun", None, ASKED), "verify_first", A),
    ],
)
def test_an_effect_that_nobody_can_look_for_is_judged_by_the_ledger(entry, mode, expected):
    assert of_ledger("ticket", entry, mode).verdict == expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        *((claim(mode), "none") for mode in MODES),
        (claim("replay", attempts=2), "none"),
        (claim("verify_first", attempts=2), "all"),
        (claim("manual", attempts=2), "all"),
        (claim("verify_first", landed=Landed.MAYBE), "all"),
        (claim("verify_first", landed=Landed.NO), "none"),
        (claim("verify_first", attempts=2, landed=Landed.NO), "none"),
        (claim("verify_first", attempts=2, landed=Landed.NO, ledger=[DONE]), "none"),
        (claim("verify_first", attempts=2, landed=Landed.NO, ledger=[BEGUN]), "all"),
        (claim("verify_first", attempts=6, round_start=5, landed=Landed.NO), "all"),
        (claim("replay", attempts=2, ledger=[BEGUN]), "open"),
        (claim("replay", attempts=2, ledger=[DONE]), "none"),
        (claim("replay", attempts=6, round_start=5), "all"),
        (claim("replay", attempts=7, round_start=5), "none"),
        (claim("verify_first", ledger=[DONE]), "none"),
    ],
)
def test_what_is_looked_at_before_an_attempt(held, expected):
    """A first attempt looks at nothing, whether its job was snoozed, or died before without being entered."""
    assert scope(held) == expected


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(("verdict", "ends"), [(A, None), (P, None), (I, Undetermined), (V, Recovered)])
def test_what_a_look_means_for_the_repeat(verdict, ends, complete):
    ended = before_repeat([Look("ticket", verdict)], complete=complete)
    wanted = None if verdict == V and not complete else ends
    assert (ended if ended is None else type(ended)) == wanted


def test_nothing_that_is_open_is_nothing_to_look_at():
    assert before_repeat([], complete=False) is None
    assert isinstance(before_repeat([], complete=True), Undetermined)


def test_the_check_that_cannot_tell_is_named():
    looks = (Look("mail", V), Look("ticket", I, "OSError: no route"), Look("bill", I))
    assert undetermined_checks(looks) == (
        "effect 'ticket' cannot be told: OSError: no route; effect 'bill' cannot be told: its check says so"
    )
    assert summary(looks) == "mail verified, ticket indeterminate, bill indeterminate"


# --- what becomes of the job


def test_what_was_found_done_is_complete_and_spends_nothing():
    end = decided(claim("verify_first", attempts=2), Recovered((Look("ticket", V),)))
    assert (end.move, end.warning, end.spends, findings_of(end).looks) == (
        *(Move.COMPLETE, "post_write_recovery", -1),
        (("ticket", "verified", None),),
    )


def test_what_cannot_be_told_is_held_with_the_evidence():
    end = decided(claim("verify_first", attempts=2), Undetermined((Look("ticket", I, "why"),), "words"))
    assert told(end) == "hold unknown maybe unknown_commit_state"
    assert end.failure is not None
    assert (end.failure.message, end.failure.advice) == ("words", LOOK_AGAIN)
    assert (end.spends, findings_of(end).looks, triage_of(end) is not None) == (
        -1,
        (("ticket", "indeterminate", None),),
        True,
    )


SEVERAL = [
    LedgerEntry("ticket", "done", "7"),
    LedgerEntry("mail", "begun"),
    LedgerEntry("bill", "done"),
    LedgerEntry("file", "seen"),
]


@pytest.mark.parametrize(
    ("result", "reopened"),
    [
        ({"verified": False}, ("ticket", "bill")),
        ({"verified": "partial"}, ("ticket", "bill")),
        ({"verified": {"ticket": "absent", "bill": True}}, ("ticket",)),
        ({"verified": {"mail": False, "file": False}}, ()),
        ({"success": False, "verified": True}, ()),
        ({"error_kind": "refused", "verified": {"bill": None}}, ("bill",)),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_receipts_that_a_result_takes_back(result, reopened, mode):
    outcome = of_result(result)
    assert outcome is not None
    end = decided(claim(mode, ledger=SEVERAL), outcome)
    assert (findings_of(end).reopens, end.failure and end.failure.landed) == (reopened, "maybe")


UNCLASSIFIED = failed("unknown", "maybe", "unclassified_error")
SAID_NO = Failed(failed("transient", "no").failure, said=True)
SAID_MAYBE = Failed(failed("transient", "maybe").failure, said=True)


@pytest.mark.parametrize(
    ("outcome", "ledger", "landed"),
    [
        *((each, None, "maybe") for each in (UNCLASSIFIED, TimedOut(), Lapsed())),
        *((each, [SEEN], "maybe") for each in (UNCLASSIFIED, TimedOut(), Lapsed())),
        *((each, [DONE], "no") for each in (UNCLASSIFIED, TimedOut(), Lapsed())),
        *((each, [BEGUN], "maybe") for each in (UNCLASSIFIED, TimedOut(), Lapsed(), SAID_NO, SAID_MAYBE)),
        (failed("transient", "no"), [BEGUN], "maybe"),
        (SAID_MAYBE, [DONE], "maybe"),
        (SAID_NO, [DONE], "no"),
        (SAID_NO, None, "no"),
    ],
)
def test_an_open_intent_means_maybe_and_none_means_no(outcome, ledger, landed):
    """Unless the handler itself said `Uncertain`; and where the ledger is not used it says nothing."""
    end = settle(claim(ledger=ledger), outcome, RULES, 0.0)
    assert end.failure is not None
    assert end.failure.landed == landed
    assert ("begun, and not known to be done: ticket" in end.failure.message) == (ledger == [BEGUN])
    assert is_duplicate(end) == (landed == "maybe")


@pytest.mark.parametrize(
    ("ledger", "expected"),
    [
        (None, "die transient maybe unknown_commit_state"),
        ([BEGUN], "die transient maybe unknown_commit_state"),
        ([DONE], "die transient no worker_lost"),
    ],
)
def test_a_manual_job_whose_worker_was_lost(ledger, expected):
    assert told(decided(claim("manual", ledger=ledger), Lapsed())) == expected


@pytest.mark.parametrize(
    ("ledger", "expected", "duplicate"),
    [
        (None, "give_back", True),
        ([DONE], "give_back", False),
        ([BEGUN], "retry transient maybe drained", True),
    ],
)
def test_a_drain_gives_back_what_has_no_open_intent(ledger, expected, duplicate):
    end = decided(claim(ledger=ledger), Drained())
    assert (told(end), is_duplicate(end)) == (expected, duplicate)


def test_what_is_verified_first_is_no_possible_duplicate():
    assert not is_duplicate(decided(claim("verify_first"), Lapsed()))


@pytest.mark.parametrize(("ledger", "landed"), [(None, None), ([DONE], None), ([BEGUN], Landed.MAYBE)])
def test_a_snooze_with_an_open_intent_is_looked_at_next_time(ledger, landed):
    assert decided(claim(ledger=ledger), Snooze(5.0)).landed == landed
    assert decided(claim(ledger=ledger), Cancel()).landed is None


# --- after an attempt that may have done it


def looked(*verdicts: Verdict) -> list[Look]:
    return [Look(f"effect-{number}", verdict) for number, verdict in enumerate(verdicts)]


MAYBE = failed("transient", "maybe")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("outcome", [TimedOut(), MAYBE])
@pytest.mark.parametrize("resumed", [True, False])
@pytest.mark.parametrize("verdicts", [[V], [V, V], [A], [V, A], [I], [V, I]])
def test_what_is_there_is_done_and_what_cannot_be_told_is_held_where_it_must_be(mode, outcome, verdicts, resumed):
    looks = looked(*verdicts)
    found = after_doubt(claim(mode), outcome, looks, resumed=resumed)
    if set(verdicts) == {V}:
        is_done = Recovered(tuple(looks), entered=True)
        assert found == (Unfinished(outcome, tuple(looks)) if resumed else is_done)
    elif I in verdicts and mode == "verify_first" and outcome == TimedOut():
        assert isinstance(found, Undetermined)
        assert found.entered
    else:
        assert found is outcome


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (TimedOut(), True),
        (MAYBE, True),
        (failed("transient", "no"), False),
        (failed("permanent", "maybe"), False),
        (of_result({"verified": False}), False),
        (Drained(), False),
        (Cancel(), False),
        (Snooze(1), False),
    ],
)
def test_only_what_may_have_been_done_is_looked_at(outcome, expected):
    assert in_doubt(outcome) is expected


@pytest.mark.parametrize(("entered", "spends"), [(True, 0), (False, -1)])
def test_an_attempt_that_was_entered_is_spent(entered, spends):
    looks = tuple(looked(I))
    for outcome in (Recovered(looks, entered=entered), Undetermined(looks, "who knows", entered=entered)):
        assert settle(claim(), outcome, RULES, roll=0.0).spends == spends


# --- what a look found, and what follows behind it

STEP = LedgerEntry("fetch\x1fs0123456789abcdef", "done", "1")
OPEN_STEP = LedgerEntry("fetch\x1fs0123456789abcdef", "begun")


@pytest.mark.parametrize(
    ("when_landed", "ledger", "expected"),
    [
        (None, None, False),
        (None, [SEEN], False),
        (None, [STEP], False),
        (None, [BEGUN], True),
        (None, [DONE, STEP], True),
        ("complete", [DONE], False),
        ("resume", None, True),
    ],
)
def test_a_handler_that_keeps_the_ledger_is_resumed_unless_it_says_otherwise(when_landed, ledger, expected):
    assert resumes(when_landed, ledger) is expected


def test_a_look_closes_an_intent_and_brings_its_receipt():
    looks = [Look("ticket", V, receipt="7"), Look("mail", V), Look("file", A)]
    assert with_looks([BEGUN], looks) == [
        LedgerEntry("ticket", "done", "7", "verified"),
        LedgerEntry("mail", "seen", None, "verified"),
        LedgerEntry("file", "seen", None, "absent"),
    ]
    assert with_looks([BEGUN], [Look("ticket", A)]) == [msgspec.structs.replace(BEGUN, verdict=A)], (
        "nothing is left of the doubt"
    )


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([Look("ticket", V)], None),
        ([Look("ticket", V, receipt="[1]")], "[1]"),
        ([Look("ticket", V, receipt="7"), Look("mail", V)], '{"ticket":7,"mail":null}'),
        ([Look("ticket", V, receipt=f'"{"x" * 700_000}"'), Look("mail", V, receipt=f'"{"x" * 700_000}"')], None),
    ],
)
def test_a_completed_job_s_result_is_what_was_found(looks, expected):
    assert result_of(looks) == expected


def test_what_is_found_after_a_timeout_is_gone_on_with_and_counts_as_progress():
    """On its last attempt too: the effect is there, so nothing but the code behind it is repeated."""
    held = claim("verify_first", attempts=3, max_attempts=3, ledger=[BEGUN])
    end = decided(held, Unfinished(TimedOut(), (Look("ticket", V, receipt="7"),)))
    assert told(end) == "retry transient no timeout"
    assert (findings_of(end).looks, findings_of(end).progress, is_duplicate(end)) == (
        (("ticket", "verified", "7"),),
        True,
        False,
    )


def test_what_is_found_after_a_timeout_of_a_manual_job_is_left_to_a_person_without_doubt():
    end = decided(claim("manual", ledger=[BEGUN]), Unfinished(TimedOut(), (Look("ticket", V),)))
    assert told(end) == "die transient no timeout"


def test_an_attempt_without_progress_is_counted_although_its_receipts_are_all_there():
    done = Look("ticket", V, by_ledger=True)
    end = decided(claim("verify_first", attempts=3, max_attempts=3, ledger=[DONE]), Unfinished(TimedOut(), (done,)))
    assert told(end) == "die transient no max_attempts"


AWAY = Look("ticket", I, "ConnectError: away", again=True)


def test_a_look_that_fails_for_now_is_told_from_one_that_cannot_tell():
    assert before_repeat([AWAY], complete=True) == LookFailed(
        (AWAY,), "effect 'ticket' cannot be told: ConnectError: away"
    )
    assert isinstance(before_repeat([AWAY, Look("mail", I)], complete=True), Undetermined)
    later = Look("mail", I, again=True, retry_after=30.0)
    found = before_repeat([AWAY, later, Look("bill", V)], complete=False)
    assert isinstance(found, LookFailed)
    assert found.retry_after == 30.0
    assert after_doubt(claim("verify_first"), TimedOut(), [AWAY], resumed=False) == TimedOut()


@pytest.mark.parametrize(("failed_looks", "expected"), [(0, "give_back"), (2, "give_back"), (3, "hold")])
def test_a_failed_look_is_put_off_as_often_as_there_are_attempts_and_spends_nothing(failed_looks, expected):
    held = claim("verify_first", attempts=2, max_attempts=3, failed_looks=failed_looks)
    end = decided(held, LookFailed((AWAY,), "away"))
    assert (str(end.move), end.spends, end.defers) == (expected, -1, int(expected == "give_back"))
    assert end.failure is not None
    assert end.failure.reason_code == ("look_failed" if expected == "give_back" else "unknown_commit_state")
    assert (end.delay > 0, findings_of(end).look_failed) == (expected == "give_back", expected == "give_back")


# --- steps, and progress


def test_steps_say_nothing_about_effects_that_are_not_in_the_ledger():
    assert claim(ledger=[STEP]).landed_by_ledger is None
    assert claim(ledger=[STEP, DONE]).landed_by_ledger == Landed.NO
    assert claim(ledger=[OPEN_STEP, DONE]).landed_by_ledger == Landed.MAYBE


@pytest.mark.parametrize("mode", ["replay", "verify_first"])
def test_a_step_that_was_cut_off_is_a_possible_duplicate_in_every_mode_that_repeats(mode):
    assert is_duplicate(decided(claim(mode, ledger=[OPEN_STEP]), Lapsed()))


@pytest.mark.parametrize("outcome", [TimedOut(), Lapsed(), failed("transient", "no"), failed("unknown", "maybe")])
def test_an_attempt_that_made_progress_is_not_counted(outcome):
    end = decided(claim(attempts=3, max_attempts=3, progressed=1), outcome)
    assert (end.move, findings_of(end).progress) == (Move.RETRY, True)
    end = decided(claim(attempts=3, max_attempts=3), outcome)
    assert (end.move, findings_of(end).progress) == (Move.DIE, False)


@pytest.mark.parametrize("outcome", [failed("permanent", "no"), Recovered((Look("ticket", V),))])
def test_progress_opens_no_round_for_what_does_not_go_on(outcome):
    assert not findings_of(decided(claim(progressed=1), outcome)).progress


def test_attempts_count_from_the_last_progress_on():
    held = claim(attempts=7, max_attempts=8, round_start=2, progress_start=5)
    assert (held.repeat, held.allowed, held.exhausted, held.replayed) == (2, 3, False, False)
    assert claim(attempts=6, max_attempts=8, round_start=2, progress_start=5).repeat == 1
    assert claim(attempts=3, max_attempts=5, round_start=2, progress_start=1).replayed
