"""What a redrive does next: canary, halt, rate, end."""

from __future__ import annotations

import pytest

from standfast.wings.redrives.rules import (
    AT_ONCE,
    CAUTIOUS,
    EVERY,
    Finish,
    Halt,
    Release,
    Wait,
    count_fates,
    fate_of,
    next_step,
    outcome_of,
    paced,
)
from standfast.wings.redrives.words import WINDOW, Fate, Outcome, RedriveOptions, Tally

BAD, GOOD = True, False


def tally(waiting: int, running: int = 0, completed: int = 0, failed: int = 0) -> Tally:
    """Make a tally whose failures settled last."""
    recent = ([BAD] * failed + [GOOD] * completed)[:WINDOW]
    return Tally(waiting=waiting, running=running, completed=completed, failed=failed, recent=tuple(recent))


CANARY = RedriveOptions(canary=3, halt_on=0.5)


@pytest.mark.parametrize(
    ("course", "now", "step"),
    [
        (RedriveOptions(), tally(0), Finish()),
        (RedriveOptions(), tally(0, running=1), Wait()),
        (RedriveOptions(), tally(10), Release(AT_ONCE)),
        (RedriveOptions(), tally(10, failed=500), Release(AT_ONCE)),
        (RedriveOptions(), tally(10, running=AT_ONCE), Wait()),
        (RedriveOptions(halt_on=0.5), tally(10, running=1), Release(CAUTIOUS - 1)),
        (CANARY, tally(300), Release(3)),
        (CANARY, tally(299, running=1), Release(2)),
        (CANARY, tally(297, running=3), Wait()),
        (CANARY, tally(297, running=1, completed=2), Wait()),
        (CANARY, tally(297, running=1, failed=2), Wait()),
        (CANARY, tally(297, completed=3), Release(CAUTIOUS)),
        (CANARY, tally(297, completed=2, failed=1), Release(CAUTIOUS)),
        (CANARY, tally(297, completed=1, failed=2), Halt("2 of the 3 that were tried first failed again")),
        (CANARY, tally(200, completed=90, failed=9), Release(CAUTIOUS)),
        (CANARY, tally(200, completed=90, failed=10), Halt("10 of the last 20 failed again")),
        (CANARY, tally(200, running=9, completed=3, failed=10), Halt("10 of the last 13 failed again")),
        (CANARY, tally(0, failed=3), Finish()),
        (RedriveOptions(canary=2), tally(9, failed=2), Halt("2 of the 2 that were tried first failed again")),
        (RedriveOptions(canary=2), tally(9, completed=1, failed=1), Release(CAUTIOUS)),
        (RedriveOptions(halt_on=0.0), tally(9, completed=90), Release(CAUTIOUS)),
        (RedriveOptions(halt_on=0.0), tally(9, completed=90, failed=1), Halt("1 of the last 20 failed again")),
        (RedriveOptions(halt_on=1.0), tally(9, completed=1, failed=19), Release(CAUTIOUS)),
        (RedriveOptions(halt_on=1.0), tally(9, completed=1, failed=20), Halt("20 of the last 20 failed again")),
    ],
)
def test_the_next_step(course, now, step):
    assert next_step(course, now) == step


def test_what_is_on_its_way_from_before_takes_room_and_judges_nothing():
    now = Tally(waiting=9, from_before=CAUTIOUS)
    assert next_step(RedriveOptions(canary=2, halt_on=0.5), now) == Release(2)
    assert next_step(RedriveOptions(halt_on=0.5), now) == Wait()
    assert next_step(RedriveOptions(), Tally(waiting=0, from_before=1)) == Wait()


def test_what_failed_long_ago_is_forgotten():
    now = Tally(waiting=9, completed=50, failed=50, recent=(GOOD,) * WINDOW)
    assert next_step(RedriveOptions(halt_on=0.1), now) == Release(CAUTIOUS)


@pytest.mark.parametrize(
    ("rate", "wanted", "next_at", "pace"),
    [
        (None, 50, 99.0, (50, 10.0)),
        (100.0, 50, 0.0, (int(100 * EVERY), 10.25)),
        (100.0, 5, 0.0, (5, 10.05)),
        (100.0, 50, 10.1, (0, 10.1)),
        (0.5, 50, 10.0, (1, 12.0)),
    ],
)
def test_the_pace(rate, wanted, next_at, pace):
    number, then = paced(RedriveOptions(rate=rate), wanted, 10.0, next_at)
    assert (number, round(then, 6)) == pace


@pytest.mark.parametrize("rate", [0.3, 3.0, 33.0, 333.0])
def test_the_rate_is_never_exceeded(rate):
    now, next_at, sent = 0.0, 0.0, 0
    while now < 60:
        number, next_at = paced(RedriveOptions(rate=rate), 1000, now, next_at)
        sent += number
        now += 0.07
    assert 0.7 * rate * 60 - 1 <= sent <= rate * 60 + max(1, rate * EVERY)


@pytest.mark.parametrize(
    ("state", "status", "outcome"),
    [
        ("queued", "replayed", None),
        ("running", "replayed", None),
        ("waiting", None, None),
        ("completed", "replayed", Outcome.COMPLETED),
        ("cancelled", "replayed", Outcome.DRIFTED),
        ("cancelled", "discarded", Outcome.FAILED),
        ("dead", "pending_review", Outcome.FAILED),
        ("dead", "scheduled", None),
        ("held", "pending_review", Outcome.FAILED),
        (None, None, Outcome.COMPLETED),
    ],
)
def test_how_a_letter_fared(state, status, outcome):
    assert outcome_of(state, status) == outcome


def test_what_a_plan_foresees():
    fates = [
        fate_of("allow", landed=False),
        fate_of("allow", landed=True),
        fate_of("deny", landed=True),
        fate_of("deny", landed=False),
        fate_of("require_approval", landed=False),
        fate_of("strange", landed=False),
    ]
    assert fates == [Fate.RUN, Fate.LANDED, Fate.LANDED, Fate.DENIED, Fate.APPROVAL, Fate.DENIED]
    assert count_fates(fates) == {"letters": 6, "would_run": 1, "already_landed": 2, "need_approval": 1, "denied": 2}
