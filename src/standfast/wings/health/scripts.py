"""The facts behind health and stats: read concurrently with the writer, in one snapshot, and never for long."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from standfast.job import HTTP
from standfast.store.steps import Script, text
from standfast.wings.calls.words import CALLER
from standfast.wings.consent.scripts import asks_by_queue
from standfast.wings.health.counting import NONE, Lane, QueueCounts, job_counts, oldest
from standfast.wings.health.queue_findings import GROWTH_WITHIN
from standfast.wings.limits.words import Row
from standfast.wings.queues.pauses import Pause, pauses
from standfast.wings.records.reads import LOOKED_THROUGH

Counters = dict[tuple[str, str], int]
"""How many notices there were, by queue and kind."""


def survey(now: float, boot: str, *, silent_after: float) -> Script[tuple[Facts, Counters]]:
    """Read facts and counters together."""
    found = yield from facts(now, boot, silent_after=silent_after)
    counters = yield "counters", {}
    return found, {(queue, kind): number for queue, kind, number in counters}


class QueueRow(NamedTuple):
    """What the store knows of a queue."""

    name: str
    rules: str | None
    paused: int
    claimed_at: float | None
    counts: QueueCounts
    oldest_ready_at: float | None
    handler_known: int
    awaiting_consent: int
    """How many of its held jobs wait for a session's consent."""
    asked_lately: int = 0
    """How many of these began to wait in the last ten minutes."""
    pause: Pause | None = None
    """Who paused it, if it is paused and that is known."""
    oldest_due_at: float | None = None
    """Since when its oldest due job has been due, whether it could start now or waits at a gate."""


Silent = dict[str, int]


class WorkerRow(NamedTuple):
    """A worker whose heartbeat is fresh."""

    id: str
    host: str
    pid: int
    queues: str
    declares: str
    started_at: float
    beat_at: float


class Running(NamedTuple):
    """A job that runs, and the worker that runs it."""

    worker: str
    id: str
    queue: str
    handler: str
    attempts: int
    claimed_at: float


class WorkersAtWork(NamedTuple):
    """Live workers, how many jobs each runs of which queue, and the jobs that have run longest."""

    workers: list[WorkerRow]
    counts: list[tuple[str, str, int]]
    longest: list[Running]


class Missing(NamedTuple):
    """A worker that did not leave in order: it may be alive, silent, or dead."""

    id: str
    host: str
    pid: int
    process: str | None
    """The name of the lock that its process holds while it lives."""
    beat_at: float
    dead: bool
    holds: int
    """How many jobs it still holds."""
    ran: str
    """What it held when it died, or holds now: queue/handler → how many jobs, as JSON text."""


class Facts(NamedTuple):
    """The facts that health is judged by."""

    queues: list[QueueRow]
    workers: list[WorkerRow]
    upkeep: dict[str, float]
    overdue: dict[str, int]
    unknown_handlers: list[tuple[str, str]]
    """Queue and name of each undeclared handler that waiting jobs ask for."""
    next_due_at: float | None
    fallbacks: list[tuple[str, int]]
    """Queues whose calls went to their fallback within the last day, with the number of calls that ever did."""
    abandoned: dict[str, int]
    """Running jobs of each queue whose worker is silent; only if no worker is alive to take them back."""
    silent: dict[str, int]
    """Jobs of each queue that nothing moves and that have no reason to wait."""
    silent_uncounted: frozenset[str]
    """The queues that may have more of these than were counted."""
    in_force: dict[str, str]
    """Queue or queue/handler → what is in force, as JSON text; only if there are workers to compare with."""
    gates: tuple[Row, ...] = ()
    """Limits, rates, breakers and admission gates that hold jobs back or count something, up to a bound."""
    deferred: tuple[tuple[str, int], ...] = ()
    """Jobs of each queue that wait at such a gate and were due more than an hour ago."""
    deferred_uncounted: bool = False
    """Whether there may be more of these than were counted."""
    callers: tuple[WorkerRow, ...] = ()
    """The processes that only call handlers: they are not workers that a job could wait for."""
    missing: tuple[Missing, ...] = ()
    """Workers and callers that died or were last heard of lately, and all that hold jobs, however long ago that was."""
    suspects: tuple[tuple[str, int, float], ...] = ()
    """Queues with jobs that wait to run alone: how many, and since when."""


FALLBACKS_SHOWN = 86400.0


GATES_SHOWN = 100


DEATHS_SHOWN = 300.0
"""Seconds for which a worker that died is named."""


DEFERRED_LONG = 3600.0
"""Seconds after which a job that a gate holds back is named in health."""


MOST_OF_LANE, FIRST_OF_GATE = 20, 3
"""How many jobs at each end of a lane, and how many at a gate, are read to find the oldest due one."""
LOOKED_AT = 2_000
"""How many jobs of each kind are examined for silence, and for undeclared handlers; likewise lanes and gates."""


def facts(now: float, boot: str, *, silent_after: float, unmoved_for: float | None = None) -> Script[Facts]:
    """Read the facts behind health and stats."""
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


def queues_with_due_jobs(besides: Collection[str]) -> Script[list[str]]:
    """Read which queues have jobs that can be claimed now by handlers other than these."""
    lanes = [Lane(*row) for row in (yield "waiting_lanes", {"most": LOOKED_AT})]
    return sorted({lane.queue for lane in lanes if lane.handler not in besides})


def _queues(now: float, lanes: Sequence[Lane]) -> Script[list[QueueRow]]:
    """Read the queues, and count their jobs."""
    rows = yield "queue_facts", {}
    counts = yield from job_counts(now)
    late: dict[str, float] = dict((yield "late_since", {"now": now, "most": LOOKED_THROUGH}))
    share = max(1, min(MOST_OF_LANE, LOOKED_THROUGH // max(1, len(lanes))))
    ends = {"lanes": text(lanes), "share": share, "first": FIRST_OF_GATE, "most": LOOKED_AT, "now": now}
    due: dict[str, float] = dict((yield "longest_due", ends))
    asks = yield from asks_by_queue(now - GROWTH_WITHIN)
    waiting = oldest(lanes)
    kept = (yield from pauses()) if any(paused for _, _, paused, *_ in rows) else {}
    found = []
    for name, published, paused, claimed_at, known in rows:
        ages = [at for at in (waiting.get(name), late.get(name)) if at is not None]
        here = counts.get(name, NONE)
        oldest_ready = min(ages, default=None)
        pause = kept.get(name) if paused else None
        known_facts = (name, published, paused, claimed_at, here, oldest_ready, known)
        oldest_due = min([at for at in (due.get(name), late.get(name)) if at is not None], default=None)
        found.append(QueueRow(*known_facts, *asks.get(name, (0, 0)), pause, oldest_due))
    return found


def workers_at_work(now: float, boot: str, *, silent_after: float) -> Script[WorkersAtWork]:
    """Read who runs what. Running jobs are as many as workers have slots, and have an index of their own."""
    rows = yield "live_workers", {"boot": boot, "since": now - silent_after}
    _, live = _told_apart([WorkerRow(*row) for row in rows])
    counts = [(*row,) for row in (yield "running_of_workers", {})]
    longest = [Running(*row) for row in (yield "longest_running", {"most": LOOKED_THROUGH})]
    return WorkersAtWork(live, counts, longest)


def _told_apart(found: Sequence[WorkerRow]) -> tuple[tuple[WorkerRow, ...], list[WorkerRow]]:
    """Separate the processes that only call from the workers."""
    callers = tuple([each for each in found if each.id.startswith(CALLER)])
    return callers, [each for each in found if not each.id.startswith(CALLER)]


def _held_back(now: float) -> Script[tuple[tuple[Row, ...], tuple[tuple[str, int], ...], bool]]:
    """Read the gates that count or hold back something, and how many jobs they have held back for long."""
    standing = tuple(Row(*row) for row in (yield "all_gates", {"limit": GATES_SHOWN}))
    since = {"before": now - DEFERRED_LONG, "most": LOOKED_THROUGH}
    deferred = (yield "deferred_jobs", since) if standing else []
    found = tuple((queue, number) for queue, number, _ in deferred)
    return standing, found, any(cut for *_, cut in deferred)


def _silent(since: float, boot: str, lanes: Sequence[Lane]) -> Script[tuple[Silent, frozenset[str]]]:
    """Count the jobs that nothing moves, with an equal share of the reading for each lane."""
    old = [lane for lane in lanes if lane.ready_at <= since]
    bounds = {"share": max(1, LOOKED_THROUGH // max(1, len(old))), "most": LOOKED_THROUGH, "some": LOOKED_AT}
    rows = yield "silent_jobs", {"since": since, "boot": boot, "lanes": text(old), **bounds}
    return {queue: number for queue, number, _ in rows}, frozenset(queue for queue, _, more in rows if more)


class Strain(NamedTuple):
    """Who holds a snapshot, and for how many seconds if known; the dead and live rows of jobs; a promotion."""

    snapshots: tuple[tuple[str, float | None], ...] = ()
    dead: int = 0
    live: int = 0
    promotion: tuple[str, str] | None = None
    """Whether it is `leaving`, `interrupted` or `filling`, and where it leads."""


def strain(now: float) -> Script[Strain]:
    """Read the strain; a server shows other users' sessions only as far as the user may see them."""
    snapshots = yield "old_snapshots", {}
    rows = yield "dead_rows", {}
    promotions = yield "promotion_mark", {"now": now}
    dead, live = rows[0] if rows else (0, 0)
    return Strain(tuple((who, age) for who, age in snapshots), dead, live, promotions[0] if promotions else None)
