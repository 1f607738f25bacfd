"""Is everything moving? Facts in, and out come the issues that a person reads."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from standfast.rules import QueueRules
from standfast.wings.alerts.rules import SEVERITY
from standfast.wings.alerts.surfaces import SUBSCRIBER
from standfast.wings.alerts.words import AlertKind, Condition, Key
from standfast.wings.health.health_words import Conflict
from standfast.wings.limits.outages import Outage
from standfast.wings.records.figures import count_of, number, span

if TYPE_CHECKING:
    from collections.abc import Iterator

CARRIERS = frozenset({"standfast.notify", "standfast.subscribers"})
"""The queues that carry alerts and notices."""

UNSERVED_AFTER = 30.0
"""Seconds a job may be due in a queue that no worker serves before there is an alert."""

SINK_DEAD_AFTER = 300.0
"""Seconds a surface may fail before there is an alert."""

STARVED_AFTER = 3600.0
"""A job due for this many seconds is starved if its queue is short and other jobs were claimed from it."""

GROWTH_WITHIN = 600.0
"""If a queue gets more new letters than its `growth_warning` within this many seconds, they grow."""
GROWTH_LEAST = 10
"""So few new letters are no growth, even if `dead_warning` is less."""
DENIALS_WITHIN = 3600.0
"""Seconds over which denied replays are counted: `denial_warning` of them are worth a look at the policy."""

REMOVED_SHOWN = 86400.0
"""Seconds for which health reports that the store's file was removed, replaced or cut."""

SILENT_AFTER = 13.0
"""Seconds without a heartbeat, of which there is one every ten, before a worker is named that may be dead."""
FROZEN_AFTER = 30.0
"""The same for a worker whose process is known to be alive."""
DEATHS_NAMED = 5
"""How many dead workers are named one by one."""

OUTAGE, LOSS, STOPPAGE, NOTE = 0.95, 1.0, 0.75, 0.2
"""The harm of findings that are no alert: a dependency is away, jobs may be lost, work stands still, all else."""

UNSWEPT = ", so jobs of lost workers are not recovered; start a worker: standfast worker app:sf"
"""What it means that no sweeper runs, and what to do."""
LATE_SWEEPS = 2
"""The sweeper is late after this many of its intervals without a sweep."""


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


class MissingWorker(NamedTuple):
    """A worker that did not leave in order, and was last heard of so many seconds ago."""

    host: str
    pid: int
    seconds: float
    life: Literal["alive", "dead", "unknown"]
    ran: tuple[tuple[str, int], ...] = ()
    """What it ran: queue/handler, and how many jobs."""
    holds: int = 0
    """How many of its jobs are not recovered yet."""
    calls: bool = False
    """Whether it is a process that only calls: many end without leaving, and matter only if they ran something."""


class StoreFacts(msgspec.Struct, frozen=True):
    """The facts about the whole store. `sweep_age` is None if no sweeper ever ran."""

    queues: tuple[QueueFacts, ...]
    sweep_age: float | None
    sweep_every: float
    disk_low: bool = False
    clock_jumped: bool = False
    conflicting_declarations: tuple[Conflict, ...] = ()
    """The queues, or queue/handler, for which two live workers declare different rules."""
    overruled_declarations: tuple[str, ...] = ()
    """The queues, or queue/handler, that a live worker declares differently from what is in force."""
    blocking_handlers: tuple[str, ...] = ()
    """The handlers, as queue/handler, that lately blocked their worker's event loop."""
    unwritten_ends: tuple[str, ...] = ()
    """The handlers, as queue/handler, of ended or lost jobs whose end a live worker cannot write."""
    unstarted: tuple[str, ...] = ()
    """The handlers, as queue/handler, for which a live worker cannot start a process, each with the reason."""
    removed_ago: float | None = None
    """How many seconds ago the store's file was found removed under a process that used it."""
    outages: tuple[Outage, ...] = ()
    """The dependencies that do not answer."""
    disabled_handlers: tuple[tuple[str, str, float, bool], ...] = ()
    """Handlers, as queue/handler, whose probe says no; why, for how long, and whether another process runs them."""
    broken_gates: tuple[tuple[str, str], ...] = ()
    """The queues whose gate could not be asked, and why."""
    fallbacks: tuple[tuple[str, int], ...] = ()
    """The queues whose calls lately went to their fallback, and how many calls ever did."""
    policy_issue: str | None = None
    """The problem with the configured policy."""
    failing_sinks: tuple[tuple[str, float, str], ...] = ()
    """The surfaces that failed lately, for how many seconds, and why."""
    working_for: float = 0.0
    """How many seconds the oldest live worker has been there."""
    absences: tuple[MissingWorker, ...] = ()
    """The workers that did not leave in order; most of them are alive."""


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


def findings(facts: StoreFacts) -> list[Finding]:
    """Find everything that is wrong: the most severe first, and outages before their consequences."""
    found = [each._replace(queue=queue.queue) for queue in facts.queues for each in _queue_findings(queue)]
    return sorted([*_store_findings(facts), *found], key=attrgetter("rank"))


def issues(facts: StoreFacts) -> list[str]:
    """Word every issue once, the most harmful first."""
    return list(dict.fromkeys(each.text for each in findings(facts)))


def status(found: list[str]) -> Literal["healthy", "degraded"]:
    """Return the one word above the list."""
    return "degraded" if found else "healthy"


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


def _queue_findings(facts: QueueFacts) -> Iterator[Finding]:
    """Find what is wrong with a queue. If nothing moves because it has no worker, only the latter is an alert."""
    unserved = facts.due and not facts.live_workers
    for each in _all_of_queue(facts):
        yield each._replace(kind=None) if unserved and each.kind is AlertKind.STALLED else each


def _all_of_queue(facts: QueueFacts) -> Iterator[Finding]:
    yield from _letters(facts)
    yield from _due(facts)
    if not facts.handler_known:
        yield Finding(f"{facts.queue}: no handler is known", harm=STOPPAGE if facts.due and not facts.paused else NOTE)
    else:
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
        text = f"{facts.queue}: {count_of(facts.new_letters, 'dead letter')} in the last 10 minutes (growing)"
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
    pending = f"{facts.queue}: {number(facts.due)} pending (backed up)"
    if too_deep(facts):
        yield Finding(pending, AlertKind.DEPTH, facts.due, rules.depth_warning)
    if stalled(facts):
        yield Finding(pending, AlertKind.STALLED, waits, rules.stall_warning)
    if facts.due and not facts.live_workers:
        text = f"{facts.queue}: {count_of(facts.due, 'due job')} and no worker"
        # While a worker is replaced, there is none for a moment, which is no alert.
        kind = AlertKind.NO_WORKER if waits >= UNSERVED_AFTER else None
        yield Finding(text, kind, waits, UNSERVED_AFTER, harm=NOTE if facts.paused else STOPPAGE)


def _unmoved(facts: QueueFacts) -> Iterator[Finding]:
    """Find jobs that nothing moves, or that have waited too long."""
    if facts.abandoned:
        text = f"{facts.queue}: {count_of(facts.abandoned, 'running job')} of a silent worker, and no worker is alive"
        yield Finding(text, AlertKind.STALLED, facts.abandoned)
    if facts.silent:
        paused = " (it is paused)" if facts.paused else ""
        text = f"{facts.queue}: nothing moves {_silent(facts)}{paused}"
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


def _store_findings(facts: StoreFacts) -> Iterator[Finding]:
    yield from (Finding(str(outage), harm=OUTAGE) for outage in facts.outages)
    yield from (Finding(text, harm=STOPPAGE) for text in _stoppages(facts))
    if facts.removed_ago is not None and facts.removed_ago < REMOVED_SHOWN:
        what = f"removed, replaced or cut short while in use (noticed {span(facts.removed_ago)} ago)"
        yield Finding(f"the store's file was {what}: accepted jobs may be lost", harm=LOSS)
    yield from (Finding(text) for text in _store_issues(facts))
    for name, seconds, why in facts.failing_sinks:
        kind = AlertKind.DEAD_SINK if seconds >= SINK_DEAD_AFTER else None
        what = "notices" if name.startswith(SUBSCRIBER) else "alerts"
        text = f"{name} takes no {what} for {span(seconds)}: {why}"
        yield Finding(text, kind, seconds, SINK_DEAD_AFTER, subject=name)
    yield from _lost_findings(facts)
    yield from _sweep_finding(facts)
    if facts.disk_low:
        yield Finding("disk is low: new work is refused", AlertKind.LOW_DISK)


def _stoppages(facts: StoreFacts) -> Iterator[str]:
    """Word what keeps work from being done or its end from being written."""
    for handler in facts.blocking_handlers:
        yield f"{handler}: blocks its worker's event loop, so that every queue waits; let it await, or be a plain def"
    for handler in facts.unwritten_ends:
        yield f"{handler}: the end of a job cannot be written, and it counts as running; a worker's log says why"
    for handler, _, why in (said.partition(": ") for said in facts.unstarted):
        yield f"{handler}: no process can be started for it, so its jobs are deferred: {why}"
    for handler, why, seconds, elsewhere in facts.disabled_handlers:
        where = "in one process, while another runs it" if elsewhere else f"for {span(seconds)}"
        yield f"{handler}: disabled {where}, because what it requires says no: {why}"
    for queue, why in facts.broken_gates:
        yield f"{queue}: its gate counts as closed: {why}"


def _store_issues(facts: StoreFacts) -> Iterator[str]:
    yield from map(str, facts.conflicting_declarations)
    for queue in sorted({*facts.overruled_declarations} - {each.name for each in facts.conflicting_declarations}):
        yield f"{queue}: a live worker declares other rules than those in force; run one version everywhere"
    for queue, calls in facts.fallbacks:
        whose = "its" if calls == 1 else "their"
        yield f"{queue}: {count_of(calls, 'call')} went to {whose} fallback"
    if facts.policy_issue is not None:
        yield facts.policy_issue
    if facts.clock_jumped:
        yield "clock jumped"


def lost(absence: MissingWorker) -> bool:
    """Return whether a worker is dead, or silent for so long that it may be."""
    silent = absence.seconds > (FROZEN_AFTER if absence.life == "alive" else SILENT_AFTER)
    return (absence.life == "dead" or silent) and bool(absence.ran or not absence.calls)


def _lost_findings(facts: StoreFacts) -> Iterator[Finding]:
    """Name the workers that died, and those that may have died."""
    found = sorted((each for each in facts.absences if lost(each)), key=lambda each: each.seconds)
    for each in found[:DEATHS_NAMED]:
        who = f"worker on {each.host}, pid {each.pid},"
        ran = ", ".join(f"{what} ({number(jobs)})" for what, jobs in each.ran)
        if each.life == "dead":
            text = f"{who} died, last heard of {span(each.seconds)} ago; it ran {ran or 'nothing'}"
        else:
            text = f"{who} has been silent for {span(each.seconds)}; it runs {ran or 'nothing'}"
        yield Finding(text, harm=STOPPAGE)
    if len(found) > DEATHS_NAMED:
        yield Finding(f"{count_of(len(found) - DEATHS_NAMED, 'more worker')} died or fell silent")


def _sweep_finding(facts: StoreFacts) -> Iterator[Finding]:
    """Find a sweeper that does not run. A store without workers needs one only if there are jobs to sweep."""
    late = LATE_SWEEPS * facts.sweep_every
    waits = any((queue.oldest_due_seconds or 0) > late or queue.abandoned for queue in facts.queues)
    left = any(lost(each) and each.holds for each in facts.absences)
    if facts.sweep_age is None:
        if waits or left:
            yield Finding(f"sweeper has never run{UNSWEPT}", AlertKind.LATE_SWEEPER, late, late)
    elif facts.sweep_age > late and (waits or left or facts.working_for > late):
        text = f"sweeper last ran {span(facts.sweep_age)} ago{UNSWEPT}"
        yield Finding(text, AlertKind.LATE_SWEEPER, facts.sweep_age, late)


def _silent(facts: QueueFacts) -> str:
    """Say how many jobs nothing moves. If not all were counted, say instead exactly how many are due."""
    if "silent" not in facts.uncounted:
        return count_of(facts.silent, "job")
    none_moves = facts.due > facts.silent and not facts.claimed_recently
    return f"its jobs; {number(facts.due)} are due" if none_moves else "many of its jobs"


def _deferred(facts: QueueFacts) -> str:
    """Say how many jobs are deferred. If not all were counted, say instead exactly how many wait at a gate."""
    if "deferred" not in facts.uncounted:
        return count_of(facts.deferred, "job")
    return f"of {count_of(facts.parked, 'job')} that wait at a gate, many are"


def conditions(facts: StoreFacts) -> dict[Key, Condition]:
    """Return the findings that are alerts; for each kind, queue and subject, the first one found."""
    found: dict[Key, Condition] = {}
    for each in findings(facts):
        if each.kind is not None:
            condition = Condition(each.kind, each.text, each.queue, each.subject, each.value, each.threshold)
            found.setdefault(condition.key, condition)
    return found
