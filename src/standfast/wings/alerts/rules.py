"""When does an alert begin, when is it over, and how much does it hurt? Facts in, changes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from standfast.wings.alerts.words import ADVICE, AlertKind, Condition, Key

CALM = 60.0
"""Seconds a condition must be gone before its alert is over: a value that dances on its threshold is one alert."""

PAIN_EVERY = 300.0
"""Seconds within which the same thing hurts once."""

WORTH_A_WRITE = 0.1
"""By what share a value must have changed before it is written anew."""

SOURCE = "standfast"

SEVERITY = {
    AlertKind.DEPTH: 0.3,
    AlertKind.DEAD_LETTERS: 0.7,
    AlertKind.GROWTH: 0.7,
    AlertKind.DENIALS: 0.3,
    AlertKind.NO_WORKER: 0.8,
    AlertKind.LATE_SWEEPER: 0.6,
    AlertKind.STALLED: 0.6,
    AlertKind.OVERDUE: 0.5,
    AlertKind.IDLE: 0.4,
    AlertKind.DEAD_SINK: 0.5,
    AlertKind.LOW_DISK: 1.0,
}
"""How much each hurts where it begins."""
GROWING = frozenset({AlertKind.DEPTH, AlertKind.DEAD_LETTERS, AlertKind.GROWTH})
"""Those that hurt more the further they are past their threshold."""


class Standing(NamedTuple):
    """An alert that is open. `clear_since` is set while its condition is gone and it may soon be over."""

    id: str
    kind: AlertKind
    queue: str
    subject: str
    value: float
    clear_since: float | None = None

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return (self.kind, self.queue, self.subject)


class Changes(NamedTuple):
    """What a look changes: what begins, what is as it was but more or less so, what is gone for now, what is over."""

    begins: tuple[Condition, ...] = ()
    goes_on: tuple[tuple[str, Condition], ...] = ()
    """By id what is back, or has another value than was written."""
    clears: tuple[str, ...] = ()
    ends: tuple[Standing, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return any(self)


def changes(
    standing: Iterable[Standing], seen: Mapping[Key, Condition], now: float, *, begin: bool = True, calm: float = CALM
) -> Changes:
    """Compare what is open with what is seen. Without `begin` nothing begins: nobody looked for a while."""
    open_ = {each.key: each for each in standing}
    gone = [each for key, each in open_.items() if key not in seen]
    both = [(open_[key], condition) for key, condition in seen.items() if key in open_]
    return Changes(
        begins=tuple(condition for key, condition in seen.items() if key not in open_) if begin else (),
        goes_on=tuple((each.id, condition) for each, condition in both if _differs(each, condition)),
        clears=tuple(each.id for each in gone if each.clear_since is None),
        ends=tuple(each for each in gone if each.clear_since is not None and now - each.clear_since >= calm),
    )


def _differs(written: Standing, seen: Condition) -> bool:
    """Tell whether what is written of an alert is far from what is so: small steps are not worth a write."""
    return written.clear_since is not None or abs(seen.value - written.value) > WORTH_A_WRITE * abs(written.value)


def severity(kind: AlertKind, value: float, threshold: float) -> float:
    """Say how much it hurts, from 0 to 1: letters 0.7 and more, a backlog the more the deeper it is."""
    least = SEVERITY[kind]
    if kind not in GROWING:
        return least
    limit = max(1.0, threshold)
    return round(least + (1.0 - least) * (1.0 - limit / max(limit, value)), 3)


def pain(condition: Condition, since: str) -> dict[str, Any]:
    """Word a condition as a pain signal."""
    measured = {"value": condition.value, "threshold": condition.threshold, "subject": condition.subject or None}
    return {
        "source": SOURCE,
        "category": str(condition.kind),
        "message": condition.message,
        "severity": severity(condition.kind, condition.value, condition.threshold),
        "queue": condition.queue or None,
        "details": {**measured, "since": since, "advice": ADVICE[condition.kind]},
    }


def told(condition: Condition, *, state: str, since: str, until: str | None = None) -> dict[str, Any]:
    """Word a beginning or an end for whoever is told of it."""
    about = {"queue": condition.queue or None, "subject": condition.subject or None}
    said = {**msgspec.to_builtins(condition), **about}
    worth = severity(condition.kind, condition.value, condition.threshold)
    when = {"since": since} if until is None else {"since": since, "until": until}
    return {"state": state, **said, "severity": worth, **when, "advice": ADVICE[condition.kind]}
