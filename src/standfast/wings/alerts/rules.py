"""When does an alert begin, when is it over, and how severe is it? Facts in, changes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from standfast.failure import Class, Failure, reason
from standfast.job import Details
from standfast.lifecycle import LETTERS, State
from standfast.rules import OURS, QueueRules
from standfast.wings.alerts.words import AlertKind, Condition, Key, OpenAlert

CALM = 60.0
"""Seconds a condition must be gone before its alert is over: a value that hovers at its threshold is one alert."""

PAIN_EVERY = 300.0
"""Seconds within which the same condition sends one pain signal."""

NOTHING_SAID = Details()
WORTH_A_WRITE = 0.1
"""By what share a value must have changed before it is written again."""


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
    AlertKind.OUTBOX: 0.8,
    AlertKind.LOW_DISK: 1.0,
}
"""How severe each kind is at its threshold."""
GROWING = frozenset({AlertKind.DEPTH, AlertKind.DEAD_LETTERS, AlertKind.GROWTH})
"""Kinds that are more severe the further they are past their threshold."""


class Changes(NamedTuple):
    """What a look changes: alerts that begin, go on with another value, are clear for now, or are over."""

    begins: tuple[Condition, ...] = ()
    goes_on: tuple[tuple[str, Condition], ...] = ()
    """By id, the alerts whose condition is back or has another value than was written."""
    clears: tuple[str, ...] = ()
    ends: tuple[OpenAlert, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return any(self)


def changes(
    was_open: Iterable[OpenAlert], seen: Mapping[Key, Condition], now: float, *, begin: bool = True, calm: float = CALM
) -> Changes:
    """Compare the open alerts with what is seen now. Without `begin` no alert begins: the last look was long ago."""
    open_ = {each.key: each for each in was_open}
    gone = [each for key, each in open_.items() if key not in seen]
    both = [(open_[key], condition) for key, condition in seen.items() if key in open_]
    return Changes(
        begins=tuple(condition for key, condition in seen.items() if key not in open_) if begin else (),
        goes_on=tuple((each.id, condition) for each, condition in both if _differs(each, condition)),
        clears=tuple(each.id for each in gone if each.clear_since is None),
        ends=tuple(each for each in gone if each.clear_since is not None and now - each.clear_since >= calm),
    )


def _differs(written: OpenAlert, seen: Condition) -> bool:
    """Return whether an alert's stored value is far from the real one: small steps are not worth a write."""
    return written.clear_since is not None or abs(seen.value - written.value) > WORTH_A_WRITE * abs(written.value)


def severity(kind: AlertKind, value: float, threshold: float) -> float:
    """Return a severity from 0 to 1: dead letters 0.7 and more, a backlog the more the deeper it is."""
    least = SEVERITY[kind]
    if kind not in GROWING:
        return least
    limit = max(1.0, threshold)
    return round(least + (1.0 - least) * (1.0 - limit / max(limit, value)), 3)


SESSION_DECIDES = frozenset({"deferred_submit", "scheduled_job"})
"""The queue reasons of work whose session hears of a failure and decides whether to tell people."""


def loud(
    queue: str,
    rules: QueueRules,
    state: State,
    failure: Failure | None,
    *,
    replays_by_itself: bool,
    details: Details = NOTHING_SAID,
) -> bool:
    """Return whether a letter is loud: it needs a person, nothing more happens automatically, and it is not internal.

    Work submitted or scheduled for a session is quiet: the session has it in its inbox. Without a session, only an
    alert can report it.
    """
    if queue.startswith(OURS) or state not in LETTERS or replays_by_itself:
        return False
    if rules.notify is not None:
        return rules.notify == "loud"
    if details.session is not None and details.queue_reason in SESSION_DECIDES:
        return False
    return failure is None or reason(failure.reason_code, Class(failure.cls)).loud
