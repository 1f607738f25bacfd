"""Reading scripts: run concurrently with the writer, in one snapshot, and never for long."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from standfast.job import LedgerEntry, Risk
from standfast.lifecycle import FINAL, State
from standfast.store.steps import Round, Script, text

WHOLE = 1 << 30
"""More bytes than any receipt has."""


class JobRow(NamedTuple):
    """A whole job as stored. Fields are in the order of the view `job_row`; times are queue time."""

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


class Holder(NamedTuple):
    """The worker of a running job: when it was last heard of, the job's lease, and whether it is of this boot."""

    heard_at: float
    lease: float
    of_this_boot: bool


class StoredTraceback(NamedTuple):
    """Where an attempt of a job raised."""

    attempt: int
    text: str


class KeptLook(NamedTuple):
    """One look at an effect. Fields are in the order of the statement's columns."""

    name: str
    verdict: str
    receipt: str | None
    at: float
    attempt: int | None
    left_out: int = 0


class KeptProgress(NamedTuple):
    """The progress that an attempt reported. Fields are in the order of the statement's columns."""

    fraction: float
    note: str | None
    at: float
    attempt: int


class JobRecord(NamedTuple):
    """A job with its history lines (JSON texts, oldest first) and its effects."""

    row: JobRow
    history: list[str]
    effects: tuple[LedgerEntry, ...] = ()
    waits_for: tuple[tuple[str, str, str | None], ...] = ()
    """The steps that a waiting step waits for in the end: name, state, and failure (JSON text) if it stopped."""
    holder: Holder | None = None
    """The worker that runs it, if a single job was read."""
    traceback: StoredTraceback | None = None
    looks: tuple[KeptLook, ...] = ()
    """Every look at its effects, the oldest first."""
    progress: KeptProgress | None = None


class SoughtLetters(NamedTuple):
    """Which letters to list, newest first, below the cursor. None matches everything."""

    queue: str | None = None
    reason_code: str | None = None
    """The reason a letter stopped, or its cause."""
    cause: str | None = None
    failure_class: str | None = None
    landed: str | None = None
    replay_status: str | None = None
    fingerprint: str | None = None
    finished_before: float | None = None
    finished_since: float | None = None
    handler: str | None = None
    label: str | None = None
    label_value: str | None = None
    text: str | None = None
    quoted: str | None = None
    """The text as JSON writes it inside a string."""
    payload_path: str | None = None
    payload_keys: str | None = None
    """The same path in the form for PostgreSQL: keys with a separator between them."""
    payload_text: str | None = None
    payload_literal: str | None = None
    """The value there as JSON: as the text that was asked for, and as the number or word that it may be."""
    payload_hidden: bool = False
    """Whether no view shows the value there if the job is a request."""
    state: str | None = None
    error_kind: str | None = None
    session: str | None = None
    thread_key: str | None = None
    queues: str | None = None
    """Names as JSON: list only letters of these queues."""
    limit: int = 50
    before: int = 1 << 62
    above: int = 0
    """The lowest number that is read."""

    @property
    def takes_all(self) -> bool:
        """Whether every letter matches."""
        return self._replace(queues=None, limit=0, before=0, above=0) == SoughtLetters(limit=0, before=0)


def letters(wanted: SoughtLetters) -> Script[list[JobRecord]]:
    """Read a page of letters."""
    rows = yield "list_letters", wanted._asdict()
    return (yield from with_history(rows))


def job(job_id: str, boot: str | None = None) -> Script[JobRecord | None]:
    """Read one job, or None. With the present boot, its record includes the worker that runs it."""
    rows = yield "job_by_id", {"id": job_id}
    for record in (yield from with_history(rows)):
        return record if boot is None else record._replace(holder=(yield from _holder(record.row, boot)))
    return None


def _holder(row: JobRow, boot: str) -> Script[Holder | None]:
    """Read when the worker of a running job was last heard of; None if the job does not run."""
    if row.state != State.RUNNING:
        return None
    rows = yield "holder_of_job", {"n": row.n, "boot": boot}
    return Holder(*rows[0]) if rows else None


def with_history(rows: list[tuple[Any, ...]], most: int = WHOLE) -> Script[list[JobRecord]]:
    """Combine jobs with their history and effects; receipts of more than `most` bytes are left out."""
    found = [JobRow(*row) for row in rows]
    lines = yield "history_of", {"numbers": text([row.n for row in found])}
    history: defaultdict[int, list[str]] = defaultdict(list)
    for n, entry in lines:
        history[n].append(entry)
    effects: defaultdict[int, list[LedgerEntry]] = defaultdict(list)
    for n, *entry in (yield "effects_of", {"numbers": text([row.n for row in found]), "most": most}):
        effects[n].append(LedgerEntry(*entry))
    looks: defaultdict[int, list[KeptLook]] = defaultdict(list)
    for n, *look in (yield "looks_of", {"numbers": text([row.n for row in found]), "most": most}):
        looks[n].append(KeptLook(*look))
    said = yield "progress_of", {"numbers": text([row.n for row in found if row.token])}
    progress = {n: KeptProgress(*rest) for n, *rest in said}
    blockers = yield from _blockers([row.n for row in found if row.state == State.WAITING])
    tracebacks = yield from _tracebacks([row.n for row in found if history[row.n] and row.state not in FINAL])
    return [
        JobRecord(
            row,
            history[row.n],
            tuple(effects[row.n]),
            tuple(blockers[row.n]),
            traceback=tracebacks.get(row.n),
            looks=tuple(looks[row.n]),
            progress=progress.get(row.n),
        )
        for row in found
    ]


def _tracebacks(failed: list[int]) -> Script[dict[int, StoredTraceback]]:
    """Read where the last attempts of jobs raised, if there are any."""
    rows = (yield "tracebacks_of", {"numbers": text(failed)}) if failed else []
    return {n: StoredTraceback(*found) for n, *found in rows}


def _blockers(waiting: list[int]) -> Script[defaultdict[int, list[tuple[str, str, str | None]]]]:
    """Read what waiting steps wait for."""
    found: defaultdict[int, list[tuple[str, str, str | None]]] = defaultdict(list)
    rows = (yield "waits_for", {"numbers": text(waiting), "most": LOOKED_THROUGH}) if waiting else []
    for n, *blocker in rows:
        found[n].append((*blocker,))
    return found


def contents() -> Script[dict[str, int]]:
    """Count everything; this reads the whole store."""
    return dict((yield "contents", {}))


LOOKED_THROUGH = 10_000
"""The most jobs that one read goes through one by one, such as late jobs, or those of a search."""


BESIDE = ("delete_looks", "delete_progress", "delete_tracebacks")
TABLES = ("delete_jobs", "delete_bodies", "delete_endings", "delete_history", "delete_effects", *BESIDE)
"""The statements that delete a whole job."""


def delete_whole(round_: Round, numbers: str) -> Script[None]:
    """Delete jobs with everything about them; the ids of those that were letters and have ended are remembered."""
    yield "keep_former_letters", {"numbers": numbers, "now": round_.now}
    for table in TABLES:
        yield table, {"numbers": numbers}
