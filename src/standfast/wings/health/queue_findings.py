"""What is wrong with one queue, in the words that health uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from standfast.rules import QueueRules
from standfast.wings.alerts.rules import SEVERITY
from standfast.wings.alerts.words import AlertKind
from standfast.wings.records.figures import count_of, number, span

if TYPE_CHECKING:
    from collections.abc import Iterator

CARRIERS = frozenset({"standfast.notify", "standfast.subscribers"})
"""The queues that carry alerts and notices."""

UNSERVED_AFTER = 30.0
"""Seconds a job may be due in a queue that no worker serves before there is an alert."""

STARVED_AFTER = 3600.0
"""A job due for this many seconds is starved if its queue is short and other jobs were claimed from it."""

GROWTH_WITHIN = 600.0
"""If a queue gets more new letters than its `growth_warning` within this many seconds, they grow."""
GROWTH_LEAST = 10
"""So few new letters are no growth, even if `dead_warning` is less."""
DENIALS_WITHIN = 3600.0
"""Seconds over which denied replays are counted: `denial_warning` of them are worth a look at the policy."""

OUTAGE, LOSS, STOPPAGE, NOTE = 0.95, 1.0, 0.75, 0.2
"""The harm of findings that are no alert: a dependency is away, jobs may be lost, work stands still, all else."""


class QueueFacts(msgspec.Struct, frozen=True):
    """The facts about one queue. `claimed_recently`: a job was claimed since the oldest due job was ready."""

    queue: str
    due: int
    letters: int
    oldest_due_seconds: float | None
    claimed_recently: bool
    handler_known: bool
    live_workers: int
    rules: QueueRules
    unknown_handlers: tuple[str, ...] = ()
    """The undeclared handlers that waiting jobs name."""
    silent: int = 0
    """Accepted jobs that nothing moves, and that have no reason to wait: see the statement `silent_jobs`."""
    abandoned: int = 0
    """Running jobs whose worker is silent, while no worker is alive to take them back."""
    deferred: int = 0
    """Jobs that a gate has held back for more than an hour."""
    long_holds: tuple[tuple[str, float], ...] = ()
    """The destinations that asked callers to wait for more than an hour, and for how many seconds."""
    suspects: tuple[int, float] | None = None
    """How many jobs wait to run alone because their worker died, and for how many seconds the first has waited."""
    paused: bool = False
    overdue: int = 0
    """Attempts that passed their timeout and still run, as their worker says: plain functions cannot be stopped."""
    new_letters: int = 0
    """How many jobs became letters in the last ten minutes and still are, without those that wait for consent."""
    denials: int = 0
    """How many letters had their replay denied in the last hour."""
    idle_seconds: float | None = None
    """How many seconds ago a job of it was last started; None if none ever was."""
    held: int = 0
    """How many of the letters wait for an answer."""
    awaiting_consent: int = 0
    """How many held jobs wait for a session's consent. They did not die, and are not counted among the letters."""
    parked: int = 0
    """How many jobs wait at a gate."""
    uncounted: frozenset[str] = frozenset()
    """Which of `silent` and `deferred` may be higher than what was counted: these are worded without a number."""


class Finding(NamedTuple):
    """Something that is wrong, in the words that health uses. With a kind it is also an alert."""

    text: str
    kind: AlertKind | None = None
    value: float = 1.0
    threshold: float = 0.0
    queue: str = ""
    subject: str = ""
    harm: float = NOTE
    """How severe it is, from 0 to 1; an alert is at least as severe as its kind."""

    @property
    def rank(self) -> float:
        """The sort key: the most severe finding has the least."""
        return -max(self.harm, SEVERITY.get(self.kind, 0.0) if self.kind else 0.0)


def too_deep(facts: QueueFacts) -> bool:
    """Return whether more jobs are due than the queue allows."""
    return facts.due > facts.rules.depth_warning


def stalled(facts: QueueFacts) -> bool:
    """Return whether the oldest due job waits while nothing is claimed and the queue is not paused."""
    waits = (facts.oldest_due_seconds or 0) >= facts.rules.stall_warning
    return waits and not facts.claimed_recently and not facts.paused


def starved(facts: QueueFacts) -> bool:
    """Return whether a due job waits far longer than the order of claims allows, although its queue is claimed from."""
    few = facts.due <= facts.rules.depth_warning
    return not facts.paused and few and facts.claimed_recently and (facts.oldest_due_seconds or 0) >= STARVED_AFTER


def unmoved(facts: QueueFacts) -> bool:
    """Return whether jobs that nothing moves are an alert: not in a paused queue, and due jobs only once it stalled."""
    due_ones = facts.oldest_due_seconds is not None and not facts.claimed_recently
    return bool(facts.silent) and not facts.paused and (stalled(facts) or not due_ones)


def growth_warning(rules: QueueRules) -> int:
    """Return how many new letters within ten minutes are too many."""
    return max(rules.dead_warning, GROWTH_LEAST) if rules.growth_warning is None else rules.growth_warning


def queue_findings(facts: QueueFacts) -> Iterator[Finding]:
    """Find what is wrong with a queue. If it stands still because it has no worker, only the latter is an alert."""
    for each in _all_of_queue(facts):
        yield each._replace(kind=None) if _unserved(facts) and each.kind is AlertKind.STALLED else each


def _all_of_queue(facts: QueueFacts) -> Iterator[Finding]:
    yield from _letters(facts)
    yield from _due(facts)
    if not facts.handler_known and not _unserved(facts):
        yield Finding(f"{facts.queue}: no handler is known", harm=STOPPAGE if facts.due and not facts.paused else NOTE)
    if facts.handler_known:
        yield from (Finding(f"{facts.queue}: no handler {name!r} is known") for name in facts.unknown_handlers)
    yield from _unmoved(facts)
    if facts.overdue:
        whose = "its" if facts.overdue == 1 else "their"
        text = f"{facts.queue}: {count_of(facts.overdue, 'handler')} past {whose} timeout"
        yield Finding(text, AlertKind.OVERDUE, facts.overdue)
    idle, longest = facts.idle_seconds, facts.rules.idle_warning
    if idle is not None and longest is not None and idle > longest:
        text = f"{facts.queue}: nothing was started for {span(idle)} (zero activity)"
        yield Finding(text, AlertKind.IDLE, idle, longest)


def _letters(facts: QueueFacts) -> Iterator[Finding]:
    """Find what is wrong with letters. A letter of a queue that carries alerts means that a surface fails."""
    rules, ours = facts.rules, facts.queue in CARRIERS
    if facts.letters > rules.dead_warning:
        text = f"{facts.queue}: {count_of(facts.letters, 'dead letter')}"
        yield Finding(text, AlertKind.DEAD_SINK if ours else AlertKind.DEAD_LETTERS, facts.letters, rules.dead_warning)
    if facts.new_letters > growth_warning(rules):
        new = count_of(facts.new_letters, "dead letter")
        text = f"{facts.queue}: {new} in the last 10 minutes (growing)"
        yield Finding(text, AlertKind.GROWTH, facts.new_letters, growth_warning(rules))
    if facts.awaiting_consent > rules.dead_warning:
        verb = "waits" if facts.awaiting_consent == 1 else "wait"
        yield Finding(f"{facts.queue}: {count_of(facts.awaiting_consent, 'job')} {verb} for consent")
    if facts.denials >= rules.denial_warning:
        text = f"{facts.queue}: {number(facts.denials)} replays denied in the last hour"
        yield Finding(text, AlertKind.DENIALS, facts.denials, rules.denial_warning)


def _due(facts: QueueFacts) -> Iterator[Finding]:
    """Find what is wrong with jobs that are due."""
    rules, waits = facts.rules, facts.oldest_due_seconds or 0.0
    if too_deep(facts):
        pending = f"{facts.queue}: {number(facts.due)} pending (backed up)"
        yield Finding(pending, AlertKind.DEPTH, facts.due, rules.depth_warning)
    if stalled(facts) and not _unserved(facts):
        text = f"{facts.queue}: {_has_been_due(facts)} and its workers start nothing"
        yield Finding(text, AlertKind.STALLED, waits, rules.stall_warning)
    if _unserved(facts):
        text = f"{facts.queue}: {_has_been_due(facts)} and no worker serves this queue{_why_unserved(facts)}"
        # While a worker is replaced, there is none for a moment, which is no alert.
        kind = AlertKind.NO_WORKER if waits >= UNSERVED_AFTER else None
        yield Finding(text, kind, waits, UNSERVED_AFTER, harm=NOTE if facts.paused else STOPPAGE)


def _unserved(facts: QueueFacts) -> bool:
    """Return whether jobs are due that no worker will take: the one cause of all that follows from it."""
    return bool(facts.due) and not facts.live_workers


def _has_been_due(facts: QueueFacts) -> str:
    """Say how many jobs are due, and for how long the oldest has been, once that is a second."""
    one, waits = facts.due == 1, facts.oldest_due_seconds or 0.0
    if waits < 1.0:
        return f"{count_of(facts.due, 'job')} {'is' if one else 'are'} due"
    if one:
        return f"1 job has been due for {span(waits)}"
    return f"{count_of(facts.due, 'job')} are due, the oldest for {span(waits)},"


def _why_unserved(facts: QueueFacts) -> str:
    unknown = "; no handler is known, so check the queue's name" if not facts.handler_known else ""
    return unknown + ("; the queue is paused" if facts.paused else "")


def _explained(facts: QueueFacts) -> bool:
    """Return whether the jobs that nothing moves are those that are due, about which there is a finding already."""
    counted = "silent" not in facts.uncounted and facts.silent <= facts.due
    return (_unserved(facts) or stalled(facts)) and (counted or _none_starts(facts))


def _unmoved(facts: QueueFacts) -> Iterator[Finding]:
    """Find jobs that nothing moves, or that have waited too long."""
    if facts.abandoned:
        text = f"{facts.queue}: {count_of(facts.abandoned, 'running job')} of a silent worker, and no worker is alive"
        yield Finding(text, AlertKind.STALLED, facts.abandoned)
    if facts.silent and not _explained(facts):
        paused = ", because the queue is paused" if facts.paused else ""
        text = f"{facts.queue}: {_silent(facts)}{paused}"
        yield Finding(text, AlertKind.STALLED if unmoved(facts) else None, facts.silent)
    if facts.deferred:
        text = f"{facts.queue}: {_deferred(facts)} deferred for more than an hour"
        yield Finding(text, AlertKind.STALLED, facts.deferred)
    if facts.suspects and not facts.paused and facts.suspects[1] >= facts.rules.stall_warning:
        jobs, seconds = facts.suspects
        verb = "waits" if jobs == 1 else "wait"
        text = f"{facts.queue}: {count_of(jobs, 'job')} of a worker that died {verb} to run alone, for {span(seconds)}"
        yield Finding(text, AlertKind.STALLED, seconds, facts.rules.stall_warning)
    for name, seconds in facts.long_holds:
        yield Finding(f"{facts.queue}: {name} asked its callers to wait for {span(seconds)}")
    if starved(facts):
        waited = span(facts.oldest_due_seconds)
        yield Finding(f"{facts.queue}: a job has been due for {waited} while others ran", AlertKind.STALLED)


def _silent(facts: QueueFacts) -> str:
    """Say how many jobs are stuck. If not all were counted, say instead exactly how many are due."""
    if "silent" not in facts.uncounted:
        return f"{count_of(facts.silent, 'job')} {'is' if facts.silent == 1 else 'are'} stuck"
    return f"its jobs are stuck; {number(facts.due)} are due" if _none_starts(facts) else "many of its jobs are stuck"


def _none_starts(facts: QueueFacts) -> bool:
    return facts.due > facts.silent and not facts.claimed_recently


def _deferred(facts: QueueFacts) -> str:
    """Say how many jobs are deferred. If not all were counted, say instead exactly how many wait at a gate."""
    if "deferred" not in facts.uncounted:
        return count_of(facts.deferred, "job")
    return f"of {count_of(facts.parked, 'job')} that wait at a gate, many are"
