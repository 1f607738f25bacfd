"""What health and stats are made of: read beside the writer, in one snapshot, and never for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from standfast.job import HTTP
from standfast.profiles import stored_rules
from standfast.store.steps import Script, text
from standfast.wings.health.counting import Lane, count_each, oldest
from standfast.wings.limits.words import Row
from standfast.wings.records.reads import LOOKED_THROUGH


class Tallies(NamedTuple):
    """Jobs by queue and what they are doing (`running`, `scheduled`, `parked`), and what was told how often."""

    doing: dict[tuple[str, str], int]
    told: dict[tuple[str, str], int]
    at_least: frozenset[str]
    """What of the first stopped at the bound: every queue may have more of it."""


def tallies(now: float) -> Script[Tallies]:
    """Read the unfinished jobs by queue, and the counters."""
    counts = yield "queue_counts", {"now": now, "most": MOST_COUNTED, "aside": _aside()}
    counters = yield "counters", {}
    doing = {(queue, what): number for queue, what, number in counts}
    sums: Counter[str] = Counter()
    for _, what, number in counts:
        sums[what] += number
    bound = {"running": MOST_COUNTED}
    at_least = frozenset(what for what, number in sums.items() if number >= bound.get(what, _aside()))
    return Tallies(doing, {(queue, kind): number for queue, kind, number in counters}, at_least)


def survey(now: float, boot: str, *, silent_after: float) -> Script[tuple[Facts, Tallies]]:
    """Read facts and tallies together."""
    found = yield from facts(now, boot, silent_after=silent_after)
    return found, (yield from tallies(now))


class QueueRow(NamedTuple):
    """What the store knows of a queue. Counts stop at a bound; `at_least` names those that did."""

    name: str
    rules: str | None
    paused: int
    claimed_at: float | None
    due: int
    letters: int
    oldest_ready_at: float | None
    handler_known: int
    at_least: tuple[str, ...] = ()


Silent = dict[str, int]


CALLER = "caller:"
"""What the id of a worker begins with that serves no queue and sweeps nothing: it runs what its process calls."""


class WorkerRow(NamedTuple):
    """A worker whose heartbeat is fresh."""

    id: str
    host: str
    pid: int
    queues: str
    declares: str
    started_at: float
    beat_at: float


class Missing(NamedTuple):
    """A worker that has not left in order: it may be alive, silent, or dead."""

    id: str
    host: str
    pid: int
    process: str | None
    """The name of the lock that its process holds while it lives."""
    beat_at: float
    dead: bool
    holds: int
    """How many jobs are still in its hands."""
    ran: str
    """What it held when it died, or holds: queue/handler → how many, as JSON text."""


class Facts(NamedTuple):
    """What health is judged by."""

    queues: list[QueueRow]
    workers: list[WorkerRow]
    upkeep: dict[str, float]
    overdue: dict[str, int]
    unknown_handlers: list[tuple[str, str]]
    """Queue and name of each undeclared handler that waiting jobs ask for."""
    next_due_at: float | None
    fallbacks: list[tuple[str, int]]
    """Queues whose calls went to their fallback within the last day, with how many ever did."""
    abandoned: dict[str, int]
    """Running jobs of each queue whose worker is silent; only where no worker is alive to take them back."""
    silent: dict[str, int]
    """Jobs of each queue that nothing moves and no reason is given for."""
    silent_more: frozenset[str]
    """Those of them that may have more of it."""
    in_force: dict[str, str]
    """Queue or queue/handler → what is in force, as JSON text; only where workers are there to compare with."""
    gates: tuple[Row, ...] = ()
    """Limits, rates, breakers and admission gates that hold something back or count something, up to a bound."""
    deferred: tuple[tuple[str, int], ...] = ()
    """Jobs of each queue that wait at such a gate and were due more than an hour ago."""
    callers: tuple[WorkerRow, ...] = ()
    """The processes that call, and whose calls may run: they are no workers that anything else could wait for."""
    missing: tuple[Missing, ...] = ()
    """Workers and callers that died lately or have not left; those that hold jobs however long ago that was."""
    suspects: tuple[tuple[str, int, float], ...] = ()
    """Queues with jobs that wait to be run alone: how many, and since when."""


MOST_COUNTED = 30_000
"""How many jobs of one kind are counted in all queues, so that looking takes milliseconds whatever the backlog."""


FALLBACKS_SHOWN = 86400.0


GATES_SHOWN = 100


DEATHS_SHOWN = 300.0
"""Seconds for which a worker that died is named."""


DEFERRED_LONG = 3600.0
"""Seconds after which a job that a gate holds back is named in health."""


LOOKED_AT = 2_000
"""How many of each kind are looked at for silence, and for undeclared handlers; lanes and gates likewise."""


def _aside() -> int:
    """Give how far jobs are counted that no index of their queue has."""
    return min(MOST_COUNTED, LOOKED_THROUGH)


def facts(now: float, boot: str, *, silent_after: float, unmoved_for: float | None = None) -> Script[Facts]:
    """Read what health and stats are made of."""
    lanes = [Lane(*row) for row in (yield "waiting_lanes", {"most": LOOKED_AT})]
    queues = yield from _queues(now, lanes)
    workers = yield "live_workers", {"boot": boot, "since": now - silent_after}
    upkeep = yield "upkeep_times", {}
    overdue = yield "overdue_jobs", {"boot": boot, "since": now - silent_after}
    named = yield "unknown_handlers", {"lanes": text(lanes), "most": LOOKED_AT}
    unknown = [(queue, handler) for queue, handler in named if handler != HTTP]
    [(next_due_at, *_)] = yield "next_due", {}
    callers, live = _told_apart([WorkerRow(*row) for row in workers])
    fallbacks = [(*row,) for row in (yield "recent_fallbacks", {"since": now - FALLBACKS_SHOWN})]
    since = {"boot": boot, "since": now - silent_after}
    abandoned: dict[str, int] = {} if live else dict((yield "abandoned_jobs", since))
    silent = ({}, frozenset()) if unmoved_for is None else (yield from _silent(now - unmoved_for, boot, lanes))
    in_force: dict[str, str] = dict((yield "rules_and_handlers", {})) if live or callers else {}
    held_back = yield from _held_back(now)
    times: dict[str, float] = dict(upkeep)
    late_ones: dict[str, int] = dict(overdue)
    told = (next_due_at, fallbacks, abandoned, *silent, in_force)
    lately = {"boot": boot, "since": now - DEATHS_SHOWN}
    missing = tuple(Missing(*row) for row in (yield "missing_workers", lately))
    suspects = tuple([(*row,) for row in (yield "waiting_suspects", {"most": LOOKED_AT})])
    return Facts(queues, live, times, late_ones, unknown, *told, *held_back, callers, missing, suspects)


def _queues(now: float, lanes: Sequence[Lane]) -> Script[list[QueueRow]]:
    """Read the queues and count what is in them, far enough that each knows whether it has more than it should."""
    rows = yield "queue_facts", {}
    rules = {name: stored_rules(name, published) for name, published, *_ in rows}
    depths = {name: each.depth_warning + 1 for name, each in rules.items()}
    due = yield from count_each("count_due_of", depths, MOST_COUNTED)
    stops = {name: each.dead_warning + 1 for name, each in rules.items()}
    letters = yield from count_each("count_letters_of", stops, MOST_COUNTED)
    late = {queue: rest for queue, *rest in (yield "late_jobs", {"now": now, "most": _aside()})}
    more_late = sum(number for number, _ in late.values()) >= _aside()
    waiting = oldest(lanes)
    found = []
    for name, published, paused, claimed_at, known in rows:
        late_here, late_since = late.get(name, (0, None))
        bounds = {"due": due[name].more or more_late, "letters": letters[name].more}
        ages = [at for at in (waiting.get(name), late_since) if at is not None]
        counts = (due[name].number + late_here, letters[name].number, min(ages, default=None))
        at_least = tuple(what for what, more in bounds.items() if more)
        found.append(QueueRow(name, published, paused, claimed_at, *counts, known, at_least))
    return found


def _told_apart(found: Sequence[WorkerRow]) -> tuple[tuple[WorkerRow, ...], list[WorkerRow]]:
    """Tell those that only call from those that work."""
    callers = tuple([each for each in found if each.id.startswith(CALLER)])
    return callers, [each for each in found if not each.id.startswith(CALLER)]


def _held_back(now: float) -> Script[tuple[tuple[Row, ...], tuple[tuple[str, int], ...]]]:
    """Read the gates that count or hold back something, and how many jobs they have held back for long."""
    standing = tuple(Row(*row) for row in (yield "all_gates", {"limit": GATES_SHOWN}))
    since = {"before": now - DEFERRED_LONG, "most": LOOKED_THROUGH}
    deferred = (yield "deferred_jobs", since) if standing else []
    return standing, tuple((queue, number) for queue, number in deferred)


def _silent(since: float, boot: str, lanes: Sequence[Lane]) -> Script[tuple[Silent, frozenset[str]]]:
    """Count the jobs that nothing moves; of each lane as many as leave some of the looking to the others."""
    old = [lane for lane in lanes if lane.ready_at <= since]
    bounds = {"share": max(1, LOOKED_THROUGH // max(1, len(old))), "most": LOOKED_THROUGH, "some": LOOKED_AT}
    rows = yield "silent_jobs", {"since": since, "boot": boot, "lanes": text(old), **bounds}
    return {queue: number for queue, number, _ in rows}, frozenset(queue for queue, _, more in rows if more)


class Strain(NamedTuple):
    """Who holds on to a snapshot and for how many seconds, if known; the dead and live rows of jobs; a promotion."""

    snapshots: tuple[tuple[str, float | None], ...] = ()
    dead: int = 0
    live: int = 0
    promotion: tuple[str, str] | None = None
    """Whether it is `leaving`, `interrupted` or `filling`, and where it leads."""


def strain(now: float) -> Script[Strain]:
    """Read it; a server tells of others only what the user may see."""
    snapshots = yield "old_snapshots", {}
    rows = yield "dead_rows", {}
    promotions = yield "promotion_mark", {"now": now}
    dead, live = rows[0] if rows else (0, 0)
    return Strain(tuple((who, age) for who, age in snapshots), dead, live, promotions[0] if promotions else None)
