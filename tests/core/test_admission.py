"""What a gate said, and what an end says about a dependency: tables."""

from __future__ import annotations

import pytest

from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, Details
from standfast.lifecycle import Move, Transition
from standfast.outcome import Cancel, Drained, Failed, Lapsed, NotEntered, Snooze, Succeeded, TimedOut
from standfast.rules import QueueRules
from standfast.wings.limits import answers as admission
from standfast.wings.limits.breaker import dependency_answered
from standfast.wings.limits.words import Closing, Report
from standfast.worker.settling import settle


def failed(cls: Class, landed: Landed = Landed.NO, code: str = "dependency_unavailable") -> Failed:
    return Failed(Failure(cls=cls, landed=landed, reason_code=code))


@pytest.mark.parametrize(
    ("answer", "closed_for", "broken"),
    [
        (True, None, False),
        (False, 5.0, False),
        (30, 30.0, False),
        (0.5, 0.5, False),
        (1e9, 86400.0, False),
        (0, 5.0, True),
        (-1, 5.0, True),
        (float("nan"), 5.0, True),
        (float("inf"), 5.0, True),
        (None, 5.0, True),
        ("yes", 5.0, True),
    ],
)
def test_whatever_is_no_yes_is_a_no(answer, closed_for, broken):
    said = admission.of_answer(answer)
    if closed_for is None:
        assert said == ("open", admission.OPEN_FOR)
    else:
        assert isinstance(said.admission, Closing)
        assert (said.holds, said.admission.broken) == (closed_for, broken)


@pytest.mark.parametrize(
    ("status", "retry_after", "expected"),
    [(200, None, ("open", 2.0)), (204, 9.0, ("open", 2.0)), (503, 9.0, 9.0), (429, None, 5.0), (302, None, 5.0)],
)
def test_a_url_opens_with_2xx_alone(status, retry_after, expected):
    said = admission.of_reply(status, retry_after)
    assert (tuple(said) if said.admission == "open" else said.holds) == expected


def test_a_gate_that_cannot_be_asked_is_closed_and_says_so():
    said = admission.of_trouble(ValueError("no"))
    assert isinstance(said.admission, Closing)
    assert (said.admission.broken, said.admission.why) == (True, "it could not be asked: ValueError: no")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Succeeded(), True),
        (failed(Class.PERMANENT), True),
        (failed(Class.TRANSIENT, code="rate_limited"), True),
        (failed(Class.TRANSIENT), False),
        (failed(Class.TRANSIENT, Landed.MAYBE), False),
        (TimedOut(), False),
        (failed(Class.UNKNOWN), None),
        (Lapsed(), None),
        (Drained(), None),
        (Snooze(1), None),
        (Cancel(), None),
        (NotEntered("drain"), None),
    ],
)
def test_what_an_end_says_about_a_dependency(outcome, says):
    assert dependency_answered(outcome) is says


def claim(*, probe: bool, url: str = "http://crm.example/x", attempts: int = 5) -> Claim:
    gate = ["breaker:http://crm.example:80"] if probe else None
    payload = f'{{"method":"GET","url":"{url}"}}'
    times = (90.0, 900.0, "replay", 0.0, 0.0, None, None)
    return Claim(1, 1, "id", "post", "http", "w", payload, attempts, 5, 0, *times, Details(), occupies=gate)  # type: ignore[arg-type]


def report(decided: Transition) -> Report:
    found = decided.rider(Report)
    assert found is not None
    return found


def test_a_probe_that_did_not_arrive_spends_nothing_even_if_it_was_the_last_attempt():
    decided = settle(claim(probe=True), failed(Class.TRANSIENT), QueueRules(), 0.0)
    assert (decided.move, decided.spends, decided.defers, report(decided).waits) == (Move.GIVE_BACK, -1, 1, True)
    assert decided.attempt_failure is not None, "its history says how it failed"


def test_a_probe_that_may_have_arrived_is_an_attempt_like_any_other():
    decided = settle(claim(probe=True, attempts=2), failed(Class.TRANSIENT, Landed.MAYBE), QueueRules(), 0.0)
    assert (decided.move, decided.spends, report(decided).waits) == (Move.RETRY, 0, False)


def test_who_is_no_probe_pays_for_its_failure():
    decided = settle(claim(probe=False, attempts=5), failed(Class.TRANSIENT), QueueRules(), 0.0)
    assert (decided.move, report(decided).dependency) == (Move.DIE, "breaker:http://crm.example:80")


def test_without_a_breaker_nothing_is_said():
    decided = settle(claim(probe=False), Succeeded(), QueueRules(breaker=None), 0.0)
    assert decided.rider(Report) is None
