"""The measurements in Prometheus's format: names begin with `standfast_`, in base units, without names of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from standfast.lifecycle import NoticeKind
from standfast.timing import BOUNDS
from standfast.wings.access.words import Grant
from standfast.wings.health.measures import Measures, QueueMeasures

__all__ = ["CONTENT_TYPE", "text"]


MOST_QUEUES = 500
"""The most queues in a scrape: each is some sixty series, and callers may invent names."""
MOST_SUBJECTS = 1000
"""The most alerts and breakers in a scrape."""


class Gauge(NamedTuple):
    """One number of each queue."""

    name: str
    about: str
    of: Callable[[QueueMeasures], float | None]


QUEUE_GAUGES = (
    Gauge(
        "oldest_due_seconds",
        "How long the job that is due longest has been due, also one at a gate.",
        lambda each: each.oldest_seconds,
    ),
    Gauge("queue_idle_seconds", "Time since anything of the queue was started.", lambda each: each.idle_seconds),
    Gauge("queue_workers", "Live workers that serve the queue.", lambda each: each.workers),
    Gauge("queue_paused", "1 if the queue is paused.", lambda each: each.paused),
    Gauge("queue_stalled", "1 if a job is due and nothing was claimed for too long.", lambda each: each.stalled),
    Gauge(
        "new_dead_letters", "Jobs that stopped within ten minutes, and did not go on.", lambda each: each.new_letters
    ),
    Gauge("replay_denials", "Letters whose replay was denied within an hour.", lambda each: each.denials),
    Gauge("overdue_jobs", "Attempts past their timeout that still run.", lambda each: each.overdue),
    Gauge("unmoved_jobs", "Jobs that nothing moves, or not for long.", lambda each: each.unmoved),
)
COUNTERS = {
    NoticeKind.ENQUEUED: "jobs_enqueued",
    NoticeKind.CLAIMED: "attempts_started",
    NoticeKind.COMPLETED: "jobs_completed",
    NoticeKind.DEAD_LETTER: "jobs_failed",
    NoticeKind.HELD: "jobs_held",
    NoticeKind.RETRY: "attempts_retried",
    NoticeKind.REPLAYED: "jobs_replayed",
    NoticeKind.REPLAY_DENIED: "replays_denied",
    NoticeKind.RESOLVED: "jobs_resolved",
    NoticeKind.CANCELLED: "jobs_cancelled",
}
"""The notices that are counted, and the names of their counters."""
HOOKS = ("hook_failed", "failure_hooks_failed", "Calls of on_failure hooks that failed or were left out.")

DUPLICATES = ("possible_duplicate", "possible_duplicates", "Repeats of attempts that may have had their effect.")


def text(measures: Measures, grant: Grant | None) -> bytes:
    """Write what a grant may see; without a grant, everything."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(measures, grant))
    return generate_latest(registry)


class _Scrape(Collector):
    """What one scrape shows: for a token limited to some queues, only those, and nothing of the whole store."""

    def __init__(self, measures: Measures, grant: Grant | None) -> None:
        self._measures = measures
        self._whole = grant is None or grant.queues is None
        reached = {name: each for name, each in measures.queues.items() if grant is None or grant.reaches(name)}
        self._queues = dict(sorted(reached.items(), key=_weight)[:MOST_QUEUES])
        self._left_out = len(reached) - len(self._queues)

    def describe(self) -> Iterable[Metric]:
        """Describe nothing in advance: the metrics depend on the queues."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every family of metrics."""
        yield _one("queues_left_out", "Queues beyond those that are shown: the ones with least to do.", self._left_out)
        yield from self._of_queues()
        yield from self._counters()
        yield from self._timings()
        yield self._alerts()
        if self._whole:
            yield from self._of_the_whole()

    def _of_queues(self) -> Iterator[Metric]:
        jobs = _gauge("jobs", "Jobs in each state.", "queue", "state")
        limits = _gauge("alert_threshold", "From which value on an alert of a queue begins.", "queue", "alert")
        for name, each in self._queues.items():
            for state, number in each.jobs.items():
                jobs.add_metric([name, state], number)
            for alert, value in each.thresholds.items():
                limits.add_metric([name, alert], value)
        yield from (jobs, limits)
        for gauge in QUEUE_GAUGES:
            family = _gauge(gauge.name, gauge.about, "queue")
            for name, each in self._queues.items():
                measured = gauge.of(each)
                if measured is not None:
                    family.add_metric([name], measured)
            yield family

    def _counters(self) -> Iterator[Metric]:
        told = [(kind, called, f"Notices {kind} about jobs of the queue.") for kind, called in COUNTERS.items()]
        for kind, called, about in (*told, HOOKS, DUPLICATES):
            family = CounterMetricFamily(f"standfast_{called}", about, labels=["queue"])
            for name, each in self._queues.items():
                family.add_metric([name], each.counters.get(kind, 0))
            yield family

    def _timings(self) -> Iterator[Metric]:
        waits = HistogramMetricFamily(
            "standfast_queue_wait_seconds", "Time from due to claimed, behind gates included.", labels=["queue"]
        )
        runs = HistogramMetricFamily(
            "standfast_attempt_duration_seconds", "Time an attempt took, whatever came of it.", labels=["queue"]
        )
        for name, each in self._queues.items():
            waits.add_metric([name], _buckets(each.timing.waits), each.timing.waited)
            runs.add_metric([name], _buckets(each.timing.runs), each.timing.ran)
        yield from (waits, runs)

    def _alerts(self) -> Metric:
        family = _gauge("alert_started_timestamp_seconds", "Since when an alert is open.", "alert", "queue", "subject")
        for kind, queue, subject, since in self._measures.alerts[:MOST_SUBJECTS]:
            if self._whole or queue in self._queues:
                family.add_metric([kind, queue, subject], since)
        return family

    def _of_the_whole(self) -> Iterator[Metric]:
        found = self._measures
        yield _one("store_up", "1 if the store answers.", found.store_up)
        yield _one("workers", "Live workers.", found.workers)
        yield _one("sweep_age_seconds", "Time since the last sweep.", found.sweep_age)
        yield _one("disk_free_bytes", "Free where the store is; none for a server's disk.", found.disk_free)
        yield _one("wal_bytes", "Size of the file in which changes wait; none for a server.", found.wal_bytes)
        yield _one("audit_head", "Number of the newest link of the audit chain.", found.audit_head)
        depth, waited = found.spool or (None, None)
        yield _one("spool_jobs", "Jobs that wait on this host for the store.", depth)
        yield _one("spool_oldest_seconds", "How long the oldest of them has waited.", waited)
        state = _gauge("breaker_open", "1 if nothing is sent there until a probe succeeds.", "dependency")
        failures = _gauge("breaker_failures", "Failures in a row.", "dependency")
        for name, blocks, number in found.breakers[:MOST_SUBJECTS]:
            state.add_metric([name], blocks)
            failures.add_metric([name], number)
        sinks = _gauge("sink_failing_seconds", "How long a surface has taken nothing.", "surface")
        for name, seconds in found.sinks:
            sinks.add_metric([name], seconds)
        outboxes = _gauge("outbox_unrelayed_seconds", "How long jobs have waited there that nothing relays.", "outbox")
        for name, seconds in found.outboxes[:MOST_SUBJECTS]:
            outboxes.add_metric([name], seconds)
        yield from (state, failures, sinks, outboxes)


def _weight(named: tuple[str, QueueMeasures]) -> tuple[int, int, int, str]:
    """Order queues by importance: those that workers serve first, then those with jobs, then the used ones."""
    name, each = named
    return -each.workers, -sum(each.jobs.values()), -sum(each.counters.values()), name


def _gauge(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"standfast_{name}", about, labels=labels)


def _one(name: str, about: str, value: float | None) -> Metric:
    family = _gauge(name, about)
    if value is not None:
        family.add_metric([], value)
    return family


def _buckets(counts: list[int]) -> list[tuple[str, float]]:
    """Return cumulative buckets for Prometheus; counts in further buckets, from another version, go into the last."""
    inner, beyond = counts[: len(BOUNDS)], sum(counts[len(BOUNDS) :])
    return [*zip(map(str, (*BOUNDS, "+Inf")), accumulate([*inner, beyond]), strict=True)]
