"""Reading scripts: run beside the writer, in one snapshot, and never for long."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from standfast.store.scripts import Script, text


class JobRow(NamedTuple):
    """A whole job as the store has it. Field order is that of the view `job_row`; times are queue time."""

    n: int
    id: str
    queue: str
    handler: str
    state: str
    priority: int
    payload: str
    details: str
    attempts: int
    round_start: int
    budget: int | None
    max_attempts: int | None
    rules: str | None
    deferrals: int
    token: int
    generation: int
    created_at: float
    first_seen_at: float | None
    entered_at: float
    due_at: float
    ready_at: float | None
    claimed_at: float | None
    finished_at: float | None
    worker: str | None
    idempotency_key: str | None
    thread_key: str | None
    coalesced: str | None
    parked_on: str | None
    workflow: str | None
    expires_at: float | None
    result: str | None
    warning: str | None
    failure: str | None
    triage: str | None
    fingerprint: str | None
    superseded_by: str | None
    policy_snapshot: str | None
    replays: int


class JobRecord(NamedTuple):
    """A job with its history lines (JSON texts, oldest first)."""

    row: JobRow
    history: list[str]


class Filter(NamedTuple):
    """Which jobs to list, newest first, below the cursor."""

    queue: str | None = None
    state: str | None = None
    limit: int = 50
    before: int = 1 << 62


def job(job_id: str) -> Script:
    """Read one job, or None."""
    rows = yield "job_by_id", {"id": job_id}
    records = yield from _with_history(rows)
    return records[0] if records else None


def jobs(wanted: Filter) -> Script:
    """Read a page of jobs."""
    rows = yield "list_jobs", wanted._asdict()
    return (yield from _with_history(rows))


def _with_history(rows: list[tuple[Any, ...]]) -> Script:
    found = [JobRow(*row) for row in rows]
    lines = yield "history_of", {"numbers": text([row.n for row in found])}
    history: defaultdict[int, list[str]] = defaultdict(list)
    for n, entry in lines:
        history[n].append(entry)
    return [JobRecord(row, history[row.n]) for row in found]


def last_journal_number() -> Script:
    """Read the newest journal row's number."""
    [(number,)] = yield "last_journal_number", {}
    return number


class QueueRow(NamedTuple):
    """What the store knows of a queue. Counts stop at the bound they were asked with."""

    name: str
    rules: str | None
    paused: int
    claimed_at: float | None
    due: int
    letters: int
    oldest_ready_at: float | None
    handler_known: int


class WorkerRow(NamedTuple):
    """A worker whose heartbeat is fresh."""

    id: str
    host: str
    pid: int
    queues: str
    declares: str
    started_at: float
    beat_at: float


class Facts(NamedTuple):
    """What health is judged by."""

    queues: list[QueueRow]
    workers: list[WorkerRow]
    upkeep: dict[str, float]
    overdue: dict[str, int]


def facts(now: float, boot: str, *, silent_after: float, most: int = 100_000) -> Script:
    """Read what health and stats are made of."""
    queues = yield "queue_facts", {"most": most}
    workers = yield "live_workers", {"boot": boot, "since": now - silent_after}
    upkeep = yield "upkeep_times", {}
    overdue = yield "overdue_jobs", {"now": now}
    return Facts([QueueRow(*row) for row in queues], [WorkerRow(*row) for row in workers], dict(upkeep), dict(overdue))
