"""Reading scripts: run beside the writer, in one snapshot, and never for long."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import msgspec

from standfast.gates import Row
from standfast.job import HTTP, Entry, Risk
from standfast.lifecycle import State
from standfast.profiles import defaults_for
from standfast.rules import QueueRules
from standfast.store.steps import Rows, Script, Step, text


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
    handler_risk: Risk | None


class JobRecord(NamedTuple):
    """A job with its history lines (JSON texts, oldest first) and its effects."""

    row: JobRow
    history: list[str]
    effects: tuple[Entry, ...] = ()
    waits_for: tuple[tuple[str, str, str | None], ...] = ()
    """The steps that a waiting one waits for in the end: name, state, and failure (JSON text) of one that stopped."""


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
    return (yield from with_history(rows))


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
    at_least: frozenset[str]
    """What of the first stopped at the bound: every queue may have more of it."""


def tallies(now: float) -> Script:
    """Read the unfinished jobs by queue, and the counters."""
    counts = yield "queue_counts", {"now": now, "most": MOST_COUNTED}
    counters = yield "counters", {}
    doing = {(queue, what): number for queue, what, number in counts}
    sums: Counter[str] = Counter()
    for _, what, number in counts:
        sums[what] += number
    at_least = frozenset(what for what, number in sums.items() if number >= MOST_COUNTED)
    return Tallies(doing, {(queue, kind): number for queue, kind, number in counters}, at_least)


def job(job_id: str) -> Script:
    """Read one job, or None."""
    rows = yield "job_by_id", {"id": job_id}
    records = yield from with_history(rows)
    return records[0] if records else None


class Holder(NamedTuple):
    """The worker of a running job: when it was last heard of, the job's lease, whether it is of the present boot."""

    heard_at: float
    lease: float
    of_this_boot: bool


def holder(number: int, boot: str) -> Script:
    """Read what is known of a running job's worker; None if the job does not run."""
    rows = yield "holder_of_job", {"n": number, "boot": boot}
    return Holder(*rows[0]) if rows else None


def gates(keys: Sequence[str]) -> Script:
    """Read the gates of these names that there are, in this order."""
    found = {row[0]: Row(*row) for row in (yield "read_gates", {"gates": text(list(keys))})}
    return [found[key] for key in keys if key in found]


def with_history(rows: list[tuple[Any, ...]]) -> Script:
    """Put jobs together with their history and effects."""
    found = [JobRow(*row) for row in rows]
    lines = yield "history_of", {"numbers": text([row.n for row in found])}
    history: defaultdict[int, list[str]] = defaultdict(list)
    for n, entry in lines:
        history[n].append(entry)
    effects: defaultdict[int, list[Entry]] = defaultdict(list)
    for n, *entry in (yield "effects_of", {"numbers": text([row.n for row in found])}):
        effects[n].append(Entry(*entry))
    blockers = yield from _blockers([row.n for row in found if row.state == State.WAITING])
    return [JobRecord(row, history[row.n], tuple(effects[row.n]), tuple(blockers[row.n])) for row in found]


def _blockers(waiting: list[int]) -> Generator[Step, Rows, defaultdict[int, list[tuple[str, str, str | None]]]]:
    """Read what steps wait for that wait for others."""
    found: defaultdict[int, list[tuple[str, str, str | None]]] = defaultdict(list)
    rows = (yield "waits_for", {"numbers": text(waiting), "most": LOOKED_THROUGH}) if waiting else []
    for n, *blocker in rows:
        found[n].append((*blocker,))
    return found


def published_rules(queue: str) -> Script:
    """Read the rules somebody published for a queue, its defaults if only a handler was; None if nothing was."""
    rows = yield "published_rules", {"queue": queue}
    for (rules,) in rows:
        return msgspec.json.decode(rules, type=QueueRules) if rules else defaults_for(queue)
    return None


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


class Facts(NamedTuple):
    """What health is judged by."""

    queues: list[QueueRow]
    workers: list[WorkerRow]
    upkeep: dict[str, float]
    overdue: dict[str, int]
    unknown_handlers: list[tuple[str, str]]
    """Queue and name of each handler that waiting jobs ask for and nobody has declared."""
    next_due_at: float | None
    fallbacks: list[tuple[str, int]]
    """Queues whose calls went to their fallback within the last day, with how many ever did."""
    abandoned: dict[str, int]
    """Running jobs of each queue whose worker is silent; only where no worker is alive to take them back."""
    silent: dict[str, int]
    """Jobs of each queue that nothing moves and no reason is given for."""
    in_force: dict[str, str]
    """Queue or queue/handler → what is in force, as JSON text; only where workers are there to compare with."""
    gates: tuple[Row, ...] = ()
    """Limits, rates, breakers and admission gates that hold something back or count something, up to a bound."""
    deferred: tuple[tuple[str, int], ...] = ()
    """Jobs of each queue that wait at such a gate and were due more than an hour ago."""
    callers: tuple[WorkerRow, ...] = ()
    """The processes that call, and whose calls may run: they are no workers that anything else could wait for."""


MOST_COUNTED = 100_000
"""How far jobs of one kind are counted, so that looking takes milliseconds whatever the backlog."""
FALLBACKS_SHOWN = 86400.0
GATES_SHOWN = 100
DEFERRED_LONG = 3600.0
"""Seconds after which a job that a gate holds back is named in health."""
LOOKED_THROUGH = 10_000
"""How many jobs of each kind are looked through for silent ones, and for handlers nobody has declared."""


def facts(now: float, boot: str, *, silent_after: float, unmoved_for: float | None = None) -> Script:
    """Read what health and stats are made of."""
    queues = yield "queue_facts", {"most": MOST_COUNTED}
    late = {queue: rest for queue, *rest in (yield "late_jobs", {"now": now, "most": MOST_COUNTED})}
    all_late = sum(number for number, _ in late.values())
    workers = yield "live_workers", {"boot": boot, "since": now - silent_after}
    upkeep = yield "upkeep_times", {}
    overdue = yield "overdue_jobs", {"now": now}
    named = yield "unknown_handlers", {"most": LOOKED_THROUGH}
    unknown = [(queue, handler) for queue, handler in named if handler != HTTP]
    [(next_due_at, _)] = yield "next_due", {}
    found = [_with_late(QueueRow(*row), late.get(row[0], [0, None]), all_late) for row in queues]
    callers, live = _told_apart([WorkerRow(*row) for row in workers])
    fallbacks = [(*row,) for row in (yield "recent_fallbacks", {"since": now - FALLBACKS_SHOWN})]
    since = {"boot": boot, "since": now - silent_after}
    abandoned: dict[str, int] = {} if live else dict((yield "abandoned_jobs", since))
    silent = {} if unmoved_for is None else (yield from _silent(now - unmoved_for, boot))
    in_force: dict[str, str] = dict((yield "rules_and_handlers", {})) if live or callers else {}
    held_back = yield from _held_back(now)
    times: dict[str, float] = dict(upkeep)
    late_ones: dict[str, int] = dict(overdue)
    told = (next_due_at, fallbacks, abandoned, silent, in_force)
    return Facts(found, live, times, late_ones, unknown, *told, *held_back, callers)


def _told_apart(found: Sequence[WorkerRow]) -> tuple[tuple[WorkerRow, ...], list[WorkerRow]]:
    """Tell those that only call from those that work."""
    calls = [each.id.startswith(CALLER) for each in found]
    return tuple(compress(found, calls)), [
        each for each, only_calls in zip(found, calls, strict=True) if not only_calls
    ]


def _held_back(now: float) -> Generator[Step, Rows, tuple[tuple[Row, ...], tuple[tuple[str, int], ...]]]:
    """Read the gates that count or hold back something, and how many jobs they have held back for long."""
    standing = tuple(Row(*row) for row in (yield "all_gates", {"limit": GATES_SHOWN}))
    since = {"before": now - DEFERRED_LONG, "most": LOOKED_THROUGH}
    deferred = (yield "deferred_jobs", since) if standing else []
    return standing, tuple((queue, number) for queue, number in deferred)


def _silent(since: float, boot: str) -> Script:
    return dict((yield "silent_jobs", {"since": since, "boot": boot, "most": LOOKED_THROUGH}))


def _with_late(queue: QueueRow, late: list[Any], all_late: int) -> QueueRow:
    """Count what is due and was not made claimable yet: without a worker nobody does that."""
    due, oldest = late
    known = [at for at in (queue.oldest_ready_at, oldest) if at is not None]
    counted = {"due": max(queue.due, all_late), "letters": queue.letters}
    at_least = tuple(name for name, number in counted.items() if number >= MOST_COUNTED)
    return queue._replace(due=queue.due + due, oldest_ready_at=min(known, default=None), at_least=at_least)
