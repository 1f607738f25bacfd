"""Reading scripts: run beside the writer, in one snapshot, and never for long."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from standfast.job import HTTP
from standfast.store.steps import Script, text


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
    thread_gate: str | None
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
    handler_risk: str | None


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


class LetterFilter(NamedTuple):
    """Which letters to list, newest first, below the cursor. None matches everything."""

    queue: str | None = None
    reason_code: str | None = None
    failure_class: str | None = None
    landed: str | None = None
    replay_status: str | None = None
    fingerprint: str | None = None
    finished_before: float | None = None
    limit: int = 50
    before: int = 1 << 62


def letters(wanted: LetterFilter) -> Script:
    """Read a page of letters."""
    rows = yield "list_letters", wanted._asdict()
    return (yield from _with_history(rows))


class JournalRow(NamedTuple):
    """What one transaction told, as JSON text: [[kind, queue, [job id, …]], …]."""

    seq: int
    at: float
    entries: str


def journal(after: int, limit: int) -> Script:
    """Read what was told after a journal row, oldest first."""
    rows = yield "journal_after", {"after": after, "limit": limit}
    return [JournalRow(*row) for row in rows]


class Tallies(NamedTuple):
    """Jobs by queue and what they are doing (`running`, `scheduled`, `parked`), and what was told how often."""

    doing: dict[tuple[str, str], int]
    told: dict[tuple[str, str], int]


def tallies(now: float, most: int = 100_000) -> Script:
    """Read the unfinished jobs by queue, and the counters."""
    counts = yield "queue_counts", {"now": now, "most": most}
    counters = yield "counters", {}
    doing = {(queue, what): number for queue, what, number in counts}
    return Tallies(doing, {(queue, kind): number for queue, kind, number in counters})


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


def queue_names() -> Script:
    """Read the names of the queues."""
    rows = yield "queue_names", {}
    return [name for (name,) in rows]


def contents() -> Script:
    """Count everything there is; this reads the whole store."""
    return dict((yield "contents", {}))


def last_journal_number() -> Script:
    """Read the newest journal row's number."""
    [(number,)] = yield "last_journal_number", {}
    return number


def survey(now: float, boot: str, *, silent_after: float) -> Script:
    """Read facts and tallies together."""
    found = yield from facts(now, boot, silent_after=silent_after)
    return found, (yield from tallies(now))


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
    unknown_handlers: list[tuple[str, str]]
    """Queue and name of each handler that due jobs ask for and nobody has declared."""
    next_due_at: float | None
    fallbacks: list[tuple[str, int]]
    """Queues whose calls went to their fallback within the last day, with how many ever did."""
    silent: dict[str, int]
    """Jobs of each queue that nothing moves and no reason is given for."""


FALLBACKS_SHOWN = 86400.0
LOOKED_THROUGH = 10_000
"""How many jobs of each kind are looked through for silent ones."""


def facts(
    now: float, boot: str, *, silent_after: float, unmoved_for: float | None = None, most: int = 100_000
) -> Script:
    """Read what health and stats are made of."""
    queues = yield "queue_facts", {"most": most}
    late = {queue: rest for queue, *rest in (yield "late_jobs", {"now": now, "most": most})}
    workers = yield "live_workers", {"boot": boot, "since": now - silent_after}
    upkeep = yield "upkeep_times", {}
    overdue = yield "overdue_jobs", {"now": now}
    unknown = [(queue, handler) for queue, handler in (yield "unknown_handlers", {}) if handler != HTTP]
    [(next_due_at,)] = yield "next_due", {}
    found = [_with_late(QueueRow(*row), *late.get(row[0], (0, None))) for row in queues]
    live = [WorkerRow(*row) for row in workers]
    fallbacks = [(*row,) for row in (yield "recent_fallbacks", {"since": now - FALLBACKS_SHOWN})]
    silent = {} if unmoved_for is None else (yield from _silent(now - unmoved_for, boot))
    return Facts(found, live, dict(upkeep), dict(overdue), unknown, next_due_at, fallbacks, silent)


def _silent(since: float, boot: str) -> Script:
    return dict((yield "silent_jobs", {"since": since, "boot": boot, "most": LOOKED_THROUGH}))


def _with_late(queue: QueueRow, due: int, oldest: float | None) -> QueueRow:
    """Count what is due and was not made claimable yet: without a worker nobody does that."""
    known = [at for at in (queue.oldest_ready_at, oldest) if at is not None]
    return queue._replace(due=queue.due + due, oldest_ready_at=min(known, default=None))
