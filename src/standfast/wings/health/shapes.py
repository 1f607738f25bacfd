"""The answers of routes about the whole store: counts, health, workers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from standfast.wings.alerts.shapes import ShownAlert
from standfast.wings.queues.shapes import QueueCounts


class WorkerBeat(TypedDict):
    """A live worker: what it serves, and when it last sent a heartbeat."""

    id: str
    queues: list[str]
    pid: int
    beat_seconds_ago: float


class RunningJob(TypedDict):
    """A job that a worker runs now."""

    id: str
    queue: str
    handler: str
    attempt: int
    since: datetime


class ShownWorker(WorkerBeat):
    """A live worker: where it runs, since when, and what it runs now.

    `running` counts its jobs by queue; `jobs` names the 100 that it has run longest.
    """

    host: str
    started_at: datetime
    running: dict[str, int]
    jobs: list[RunningJob]


class WorkerList(TypedDict):
    """Live workers, the oldest first."""

    items: list[ShownWorker]


class ShownGate(TypedDict):
    """Something that holds jobs back or counts them: a limit, a breaker, a closed gate, a disabled handler."""

    key: str
    kind: str
    opens_in: float | None
    used: NotRequired[int]
    limit: NotRequired[int | None]
    state: NotRequired[str]
    failures: NotRequired[int]
    closed_seconds: NotRequired[float]
    why: NotRequired[str | None]
    broken: NotRequired[bool]
    up: NotRequired[bool]


class SpoolSummary(TypedDict):
    """Jobs that wait on the server's host until the store is back."""

    path: str
    depth: int
    oldest_seconds: float | None
    reason: str | None


class SpoolEntry(TypedDict):
    """One job in the spool."""

    id: str
    queue: str
    waited_seconds: float
    reason: str


class Spool(SpoolSummary):
    """Jobs that wait on the server's host, with the oldest of them."""

    entries: list[SpoolEntry]


class ShownOutbox(TypedDict):
    """An outbox in another database. Only a process that declares it can count its jobs; for others `jobs` is null."""

    database: str
    jobs: int | None
    oldest_seconds: float | None
    relayed_seconds_ago: float | None
    problem: str | None


class Stats(TypedDict):
    """Counts of what the store has now, and of what happened so far."""

    total_pending: int
    total_processing: int
    total_dead_letter: int
    total_awaiting_consent: int
    paused_queues: int
    queue_depths: dict[str, int]
    oldest_pending_seconds: float | None
    next_retry_at: datetime | None
    worker_running: bool
    workers: list[WorkerBeat]
    counters: dict[str, int]
    queues: dict[str, QueueCounts]
    gates: list[ShownGate]
    spool: Spool | None
    outboxes: list[ShownOutbox]


class Health(TypedDict):
    """Whether everything moves, and what does not."""

    status: Literal["healthy", "degraded"]
    total_pending: int
    total_dead_letter: int
    total_awaiting_consent: int
    paused_queues: int
    issues: list[str]
    alerts: list[ShownAlert]
    spool: SpoolSummary | None
    outboxes: list[ShownOutbox]
