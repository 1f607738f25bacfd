"""Is everything moving? Facts in, the issues a person reads out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from standfast.rules import QueueRules

if TYPE_CHECKING:
    from collections.abc import Iterator

STALLED_AFTER = 60.0
"""A due job that waited this many seconds without any claim of its queue meanwhile means the queue is backed up."""

STARVED_AFTER = 3600.0
"""A due job that waited this many seconds in a short queue that others were claimed from is starved."""

GROWTH_WITHIN = 600.0
"""Seconds in which more new letters than a queue's `dead_warning` mean that they grow."""
GROWTH_LEAST = 10
"""So few new letters are no growth, also where `dead_warning` is less."""
DENIALS_WITHIN = 3600.0
DENIALS_WARNING = 5
"""So many letters of a queue whose replay was denied within that time are worth a look at its policy."""

REMOVED_SHOWN = 86400.0
"""Seconds for which it is told that the store's file was removed."""

LATE_SWEEPS = 2
"""The sweeper is late when so many of its rounds passed without one."""


class QueueFacts(msgspec.Struct, frozen=True):
    """What is known about one queue. `claimed_recently`: anything was claimed since its oldest due job was ready."""

    queue: str
    due: int
    letters: int
    oldest_due_seconds: float | None
    claimed_recently: bool
    handler_known: bool
    live_workers: int
    rules: QueueRules
    unknown_handlers: tuple[str, ...] = ()
    """The handlers that waiting jobs name and nobody has declared."""
    silent: int = 0
    """Accepted jobs that nothing moves and no reason is given for: neither claimed from nor parked, leased or ended."""
    abandoned: int = 0
    """Running jobs whose worker is silent, while no worker is alive to take them back."""
    deferred: int = 0
    """Jobs that a gate has held back for more than an hour."""
    paused: bool = False
    overdue: int = 0
    """Attempts that passed their timeout and still run: plain functions, which cannot be stopped."""
    new_letters: int = 0
    """How many became letters in the last ten minutes, and still are."""
    denials: int = 0
    """How many letters had their replay denied in the last hour."""
    at_least: tuple[str, ...] = ()
    """Which of `due`, `letters` and `new_letters` stopped at the bound of counting."""


class StoreFacts(msgspec.Struct, frozen=True):
    """What is known about the whole store. `sweep_age` is None when no sweeper ever ran."""

    queues: tuple[QueueFacts, ...]
    sweep_age: float | None
    sweep_every: float
    disk_low: bool = False
    clock_jumped: bool = False
    conflicting_declarations: tuple[str, ...] = ()
    """The queues, or queue/handler, for which two live workers declare different rules."""
    overruled_declarations: tuple[str, ...] = ()
    """Those of which a live worker declares something else than what is in force."""
    blocking_handlers: tuple[str, ...] = ()
    """Those, as queue/handler, that lately blocked their worker's event loop."""
    removed_ago: float | None = None
    """How long ago the store's file was found removed under a process that used it."""
    open_breakers: tuple[tuple[str, int, float], ...] = ()
    """What does not answer, how often it failed in a row, and for how many seconds its breaker has been open."""
    disabled_handlers: tuple[tuple[str, str, float, bool], ...] = ()
    """Those, as queue/handler, whose probe says no, why, for how many seconds, and whether another process has it."""
    broken_gates: tuple[tuple[str, str], ...] = ()
    """The queues whose gate could not be asked, and why."""
    fallbacks: tuple[tuple[str, int], ...] = ()
    """The queues whose calls lately went to their fallback, and how many did so far."""
    policy_issue: str | None = None
    """What is wrong with the policy that somebody configured."""


def issues(facts: StoreFacts) -> list[str]:
    """Word every issue, queue by queue, then those of the whole store."""
    found = [issue for queue in facts.queues for issue in _queue_issues(queue)]
    return [*found, *_store_issues(facts)]


def status(found: list[str]) -> Literal["healthy", "degraded"]:
    """Give the one word above the list."""
    return "degraded" if found else "healthy"


def backed_up(facts: QueueFacts) -> bool:
    """Tell whether more is due than the queue allows, or its oldest due job waits while nothing is claimed."""
    if facts.due > facts.rules.depth_warning:
        return True
    return (facts.oldest_due_seconds or 0) >= STALLED_AFTER and not facts.claimed_recently


def starved(facts: QueueFacts) -> bool:
    """Tell whether a due job waits far longer than the order of claims lets it, though its queue is claimed from."""
    few = facts.due <= facts.rules.depth_warning
    return few and facts.claimed_recently and (facts.oldest_due_seconds or 0) >= STARVED_AFTER


def _queue_issues(facts: QueueFacts) -> Iterator[str]:
    if facts.letters > facts.rules.dead_warning:
        yield f"{facts.queue}: {_count(facts.letters, 'dead letter', 'letters' in facts.at_least)}"
    if facts.new_letters > max(facts.rules.dead_warning, GROWTH_LEAST):
        new = _count(facts.new_letters, "dead letter", "new_letters" in facts.at_least)
        yield f"{facts.queue}: {new} in the last 10 minutes (growing)"
    if facts.denials >= DENIALS_WARNING:
        yield f"{facts.queue}: {facts.denials} replays denied in the last hour"
    if backed_up(facts):
        yield f"{facts.queue}: {facts.due}{'+' if 'due' in facts.at_least else ''} pending (backed up)"
    if facts.due and not facts.live_workers:
        yield f"{facts.queue}: {_count(facts.due, 'due job', 'due' in facts.at_least)} and no worker"
    if not facts.handler_known:
        yield f"{facts.queue}: no handler is known"
    else:
        yield from (f"{facts.queue}: no handler {name!r} is known" for name in facts.unknown_handlers)
    if facts.abandoned:
        yield f"{facts.queue}: {_count(facts.abandoned, 'running job')} of a silent worker, and no worker is alive"
    if facts.silent:
        paused = " (it is paused)" if facts.paused else ""
        yield f"{facts.queue}: nothing moves {_count(facts.silent, 'job')}{paused}"
    if facts.deferred:
        yield f"{facts.queue}: {_count(facts.deferred, 'job')} deferred for more than an hour"
    if starved(facts):
        yield f"{facts.queue}: a job has been due for {(facts.oldest_due_seconds or 0) / 3600:.1f} h while others ran"
    if facts.overdue:
        whose = "its" if facts.overdue == 1 else "their"
        yield f"{facts.queue}: {_count(facts.overdue, 'handler')} past {whose} timeout"


def _store_issues(facts: StoreFacts) -> Iterator[str]:
    for queue in facts.conflicting_declarations:
        yield f"{queue}: two live processes declare different rules"
    for queue in sorted({*facts.overruled_declarations} - {*facts.conflicting_declarations}):
        yield f"{queue}: a live worker declares other rules than those in force; run one version everywhere"
    for handler in facts.blocking_handlers:
        yield f"{handler}: blocks its worker's event loop, so that every queue waits; let it await, or be a plain def"
    for queue, calls in facts.fallbacks:
        whose = "its" if calls == 1 else "their"
        yield f"{queue}: {_count(calls, 'call')} went to {whose} fallback"
    for name, failures, seconds in facts.open_breakers:
        yield f"{name} does not answer: {_count(failures, 'failure')} in a row, its breaker is open for {seconds:.0f} s"
    for handler, why, seconds, elsewhere in facts.disabled_handlers:
        where = "in one process, while another runs it" if elsewhere else f"for {seconds:.0f} s"
        yield f"{handler}: disabled {where}, because what it requires says no: {why}"
    for queue, why in facts.broken_gates:
        yield f"{queue}: its gate counts as closed: {why}"
    if facts.policy_issue is not None:
        yield facts.policy_issue
    yield from _sweep_issue(facts)
    if facts.removed_ago is not None and facts.removed_ago < REMOVED_SHOWN:
        yield f"the store's file was removed while in use, {facts.removed_ago:.0f} s ago: what it held then is gone"
    if facts.disk_low:
        yield "disk is low: new work is refused"
    if facts.clock_jumped:
        yield "clock jumped"


def _sweep_issue(facts: StoreFacts) -> Iterator[str]:
    late = LATE_SWEEPS * facts.sweep_every
    if facts.sweep_age is not None:
        if facts.sweep_age > late:
            yield f"sweeper last ran {facts.sweep_age:.0f} s ago"
    # A store nobody uses yet needs no sweeper; one where a due job waited this long does.
    elif any((queue.oldest_due_seconds or 0) > late for queue in facts.queues):
        yield "sweeper has never run"


def _count(number: int, what: str, more: bool = False) -> str:  # noqa: FBT001, FBT002 - read beside the number
    return f"{number} {what}" if number == 1 else f"{number}{'+' if more else ''} {what}s"
