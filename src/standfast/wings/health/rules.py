"""Is everything moving? Facts in, and out come the issues that a person reads."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from standfast.wings.alerts.surfaces import SUBSCRIBER
from standfast.wings.alerts.words import AlertKind, Condition, Key
from standfast.wings.health.health_words import Conflict
from standfast.wings.health.queue_findings import LOSS, OUTAGE, STOPPAGE, Finding, QueueFacts, queue_findings
from standfast.wings.limits.outages import Outage
from standfast.wings.records.figures import count_of, number, span

if TYPE_CHECKING:
    from collections.abc import Iterator

SINK_DEAD_AFTER = 300.0
"""Seconds a surface may fail before there is an alert."""

REMOVED_SHOWN = 86400.0
"""Seconds for which health reports that the store's file was removed, replaced or cut."""

SILENT_AFTER = 13.0
"""Seconds without a heartbeat, of which there is one every ten, before a worker is named that may be dead."""
FROZEN_AFTER = 30.0
"""The same for a worker whose process is known to be alive."""
DEATHS_NAMED = 5
"""How many dead workers are named one by one."""

UNSWEPT = ", so jobs of lost workers are not recovered; start a worker: standfast worker app:sf"
"""What it means that no sweeper runs, and what to do."""
LATE_SWEEPS = 2
"""The sweeper is late after this many of its intervals without a sweep."""


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


def findings(facts: StoreFacts) -> list[Finding]:
    """Find everything that is wrong: the most severe first, and outages before their consequences."""
    found = [each._replace(queue=queue.queue) for queue in facts.queues for each in queue_findings(queue)]
    return sorted([*_store_findings(facts), *found], key=attrgetter("rank"))


def issues(facts: StoreFacts) -> list[str]:
    """Word every issue once, the most harmful first."""
    return list(dict.fromkeys(each.text for each in findings(facts)))


def status(found: list[str]) -> Literal["healthy", "degraded"]:
    """Return the one word above the list."""
    return "degraded" if found else "healthy"


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


def conditions(facts: StoreFacts) -> dict[Key, Condition]:
    """Return the findings that are alerts; for each kind, queue and subject, the first one found."""
    found: dict[Key, Condition] = {}
    for each in findings(facts):
        if each.kind is not None:
            condition = Condition(each.kind, each.text, each.queue, each.subject, each.value, each.threshold)
            found.setdefault(condition.key, condition)
    return found
