"""Decides what a redrive does next, from its options and how its letters fared so far."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from standfast.errors import ConfigurationError
from standfast.lifecycle import FINAL, LETTERS, State
from standfast.rules import Rate, as_rate
from standfast.wings.redrives.words import WINDOW, Fate, Outcome, RedriveOptions, Tally

CAUTIOUS = 100
"""How many letters are under way at a time if failures can still stop the rest."""
AT_ONCE = 1000
"""The most letters that are under way at a time."""
EVERY = 0.25
"""Seconds between two steps of one redrive: the letters that its rate allows in that time go together."""


class Release(msgspec.Struct, frozen=True):
    """Replay this many more letters."""

    number: int


class Wait(msgspec.Struct, frozen=True):
    """Let the running letters settle first."""


class Halt(msgspec.Struct, frozen=True):
    """Too many fail: leave the rest until a person resumes the redrive."""

    why: str


class Finish(msgspec.Struct, frozen=True):
    """Every letter has ended."""


Step = Release | Wait | Halt | Finish


def next_step(options: RedriveOptions, tally: Tally) -> Step:
    """Decide what to do now. The rest waits until the canary has settled and was good enough."""
    if not tally.waiting:
        return Wait() if tally.running or tally.from_before else Finish()
    why = _halts(options, tally)
    if why is not None:
        return Halt(why)
    if tally.replayed < options.canary:
        return Release(options.canary - tally.replayed)
    if tally.settled < options.canary:
        return Wait()
    room = (AT_ONCE if _limit(options) is None else CAUTIOUS) - tally.running - tally.from_before
    return Release(room) if room > 0 else Wait()


def _limit(options: RedriveOptions) -> float | None:
    """Return the failing share that halts it. A canary that fails completely always does: that is what it is for."""
    return 1.0 if options.halt_on is None and options.canary else options.halt_on


def _halts(options: RedriveOptions, tally: Tally) -> str | None:
    """Return why it must stop, or None. The canary is judged alone, then the last 20; missing ones count as good."""
    limit = _limit(options)
    if limit is None or not tally.failed:
        return None
    if options.canary and tally.replayed == tally.settled == options.canary and tally.failed >= limit * options.canary:
        tried = f"{tally.failed} of the {options.canary} that were tried first"
        return f"{'the one that was tried first' if options.canary == 1 else tried} failed again"
    failed = sum(tally.recent[:WINDOW])
    if failed and failed >= limit * WINDOW:
        return f"{failed} of the last {min(WINDOW, tally.settled)} failed again"
    return None


def paced(options: RedriveOptions, wanted: int, now: float, next_at: float) -> tuple[int, float]:
    """Return how many the rate allows now, and from when on the next. Missed time is not made up for."""
    if options.rate is None:
        return wanted, now
    if now < next_at:
        return 0, next_at
    number = min(wanted, max(1, math.floor(options.rate * EVERY)))
    return number, now + number / options.rate


def outcome_of(state: str | None, replay_status: str | None) -> Outcome | None:
    """Return how a replayed letter fared; None while it is under way.

    A letter that is gone was pruned after its end: one that is deleted after it stopped again is marked at that time.
    """
    if state is None or state == State.COMPLETED:
        return Outcome.COMPLETED
    if State(state) in FINAL:  # it was discarded after it stopped again, or cancelled under way
        return Outcome.FAILED if replay_status == "discarded" else Outcome.DRIFTED
    if State(state) in LETTERS and replay_status != "scheduled":
        return Outcome.FAILED
    return None


def fate_of(decision: str, *, landed: bool) -> Fate:
    """Predict what becomes of a letter, from the store and the present policy."""
    if landed:
        return Fate.LANDED
    return {"allow": Fate.RUN, "require_approval": Fate.APPROVAL}.get(decision, Fate.DENIED)


def count_fates(fates: Iterable[Fate]) -> dict[str, int]:
    """Count what a plan predicts, in words for people."""
    found = list(fates)
    words = {
        "would_run": Fate.RUN,
        "already_landed": Fate.LANDED,
        "need_approval": Fate.APPROVAL,
        "denied": Fate.DENIED,
    }
    return {"letters": len(found), **{word: found.count(fate) for word, fate in words.items()}}


def issues_of_halts(halted: Iterable[tuple[str, str]]) -> list[str]:
    """Return what `health` says about redrives that failures halted."""
    command = "standfast dead redrive"
    return [
        f"redrive {each} halted: {why}; see to it with `{command} {each} --resume` or --cancel" for each, why in halted
    ]


def read_course(rate: str | float | None, canary: int, halt_on: float | None) -> RedriveOptions:
    """Check rate, canary and halt; impossible values are refused before anything starts."""
    if type(canary) is not int or canary < 0:
        raise ConfigurationError(f"canary must be a number of letters, not {canary!r}")
    if halt_on is not None and not (isinstance(halt_on, int | float) and 0 <= halt_on <= 1):
        raise ConfigurationError(f"halt_on must be a share from 0 to 1, not {halt_on!r}")
    return RedriveOptions(rate=_per_second(rate), canary=canary, halt_on=None if halt_on is None else float(halt_on))


def _per_second(rate: str | float | None) -> float | None:
    if rate is None:
        return None
    if isinstance(rate, int | float) and not isinstance(rate, bool):
        if not 0 < rate < float("inf"):
            raise ConfigurationError(f"rate must be more than 0 letters per second, not {rate!r}")
        return float(rate)
    if not isinstance(rate, str):
        raise ConfigurationError(f"rate must be a number per second or text such as '100/s', not {rate!r}")
    found = Rate(**as_rate(rate))
    return found.limit / found.per
