"""Measurements for monitoring: health, counts and timings as numbers, queue by queue."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.rules import QueueRules
from standfast.store.store import Store
from standfast.timing import Timing
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.words import AlertKind, OpenAlert
from standfast.wings.audit import scripts as audit
from standfast.wings.health import timings as timing_scripts
from standfast.wings.health import verbs as overview
from standfast.wings.health.outbox_status import statuses
from standfast.wings.health.queue_findings import QueueFacts, growth_warning, stalled, starved, unmoved
from standfast.wings.limits import words as gates
from standfast.wings.relay.verbs import SpoolStatus


class QueueMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """One queue in numbers."""

    jobs: dict[str, int]
    """How many jobs are due, scheduled, parked, waiting, running, dead, held, awaiting_consent."""
    counters: dict[str, int]
    """How many notices there were, by kind."""
    oldest_seconds: float
    """How long the job that is due longest has been due, whether it could start or waits at a gate."""
    idle_seconds: float | None
    workers: int
    paused: bool
    new_letters: int
    denials: int
    overdue: int
    unmoved: int
    """Jobs that nothing moves, whose worker is silent, that a gate has held back for over an hour, or that starve."""
    stalled: bool
    thresholds: dict[str, float]
    """The value from which each alert begins."""
    timing: Timing


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """The whole store in numbers. While it is away, only the jobs that wait on this host are known."""

    store_up: bool = True
    queues: dict[str, QueueMeasures] = {}
    breakers: tuple[tuple[str, bool, int], ...] = ()
    """What may have a breaker, whether the breaker is open, and how many failures in a row there were."""
    workers: int = 0
    sweep_age: float | None = None
    spool: tuple[int, float] | None = None
    """Jobs that wait on this host for the store, and how many seconds the oldest has waited."""
    outboxes: tuple[tuple[str, float], ...] = ()
    """Outboxes in other databases, and for how many seconds jobs have waited there that nothing relays."""
    disk_free: int | None = None
    wal_bytes: int | None = None
    audit_head: int = 0
    alerts: tuple[tuple[str, str, str, float], ...] = ()
    """Kind, queue, subject and start of each open alert."""
    sinks: tuple[tuple[str, float], ...] = ()
    """Surfaces that fail, and for how many seconds."""


BOUNDLESS = 1 << 60
"""This many free bytes or more mean unknown: the disk is a server's."""


def measure_away(spooled: SpoolStatus | None) -> Measures:
    """Measure the jobs that wait on this host for a store that is away."""
    return Measures(store_up=False, spool=None if spooled is None else _spool(spooled))


async def measure(store: Store, spooled: SpoolStatus | None) -> Measures:
    """Measure everything."""
    facts, judged = await overview.observe(store)
    stats = await overview.stats(store, spooled)
    timings = await store.read(timing_scripts.read())
    head, open_alerts, skew, free = (
        await store.read(audit.peek()),
        await store.read(alerts.standing()),
        store.skew(),
        store.location.free_bytes(),
    )
    counts: dict[str, dict[str, Any]] = stats["queues"]
    waited = {each.name: store.now() - each.oldest_due_at for each in facts.queues if each.oldest_due_at is not None}
    return Measures(
        queues={
            each.queue: _queue(each, counts.get(each.queue, {}), timings.get(each.queue), waited.get(each.queue, 0.0))
            for each in judged.queues
        },
        breakers=tuple(
            (row.key.removeprefix("breaker:"), gates.blocks(row), row.used)
            for row in facts.gates
            if row.kind == "breaker"
        ),
        workers=len(facts.workers),
        sweep_age=judged.sweep_age,
        spool=None if spooled is None else _spool(spooled),
        outboxes=tuple(
            (each.database, each.unrelayed_seconds)
            for each in statuses(facts.upkeep, (), now=store.now(), skew=store.skew())
        ),
        disk_free=free if free < BOUNDLESS else None,
        wal_bytes=store.location.wal()[0] if free < BOUNDLESS else None,
        audit_head=0 if head is None else head.head.seq,
        alerts=tuple(_alert(each, skew) for each in open_alerts),
        sinks=tuple((name, seconds) for name, seconds, _ in judged.failing_sinks),
    )


def _spool(spooled: SpoolStatus) -> tuple[int, float]:
    return spooled.depth, spooled.oldest[0].waited_seconds if spooled.oldest else 0.0


def _alert(alert: OpenAlert, skew: float) -> tuple[str, str, str, float]:
    return alert.kind, alert.queue, alert.subject, alert.started_at + skew


def _queue(facts: QueueFacts, counts: dict[str, Any], timing: Timing | None, waited: float) -> QueueMeasures:
    doing = {state: counts.get(state, 0) for state in ("scheduled", "parked", "waiting", "running")}
    letters = {"dead": facts.letters - facts.held, "held": facts.held, "awaiting_consent": facts.awaiting_consent}
    return QueueMeasures(
        jobs={"due": facts.due, **doing, **letters},
        counters=counts.get("counters", {}),
        oldest_seconds=waited,
        idle_seconds=facts.idle_seconds,
        workers=facts.live_workers,
        paused=facts.paused,
        new_letters=facts.new_letters,
        denials=facts.denials,
        overdue=facts.overdue,
        unmoved=facts.silent * unmoved(facts) + facts.abandoned + facts.deferred + starved(facts),
        stalled=stalled(facts),
        thresholds=_thresholds(facts.rules),
        timing=timing or Timing(),
    )


def _thresholds(rules: QueueRules) -> dict[str, float]:
    """Return the value from which each alert of a queue begins; an alert without one never begins."""
    known = {
        AlertKind.DEPTH: rules.depth_warning,
        AlertKind.DEAD_LETTERS: rules.dead_warning,
        AlertKind.GROWTH: growth_warning(rules),
        AlertKind.DENIALS: rules.denial_warning,
        AlertKind.STALLED: rules.stall_warning,
        AlertKind.IDLE: rules.idle_warning,
    }
    return {str(kind): float(value) for kind, value in known.items() if value is not None}
