"""Scripts for whole workflows: start all steps or none, cancel, read, prune."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import NewJob
from standfast.lifecycle import LETTERS, Move, NoticeKind, State, Transition, asked_by
from standfast.spine.apply import apply_decided
from standfast.spine.claim_requests import Conflict, Full
from standfast.spine.intake import Terms, hot_row, known_queues, next_numbers
from standfast.spine.riders import Answers, Queues
from standfast.store.hints import STOPS
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import Patience, writes
from standfast.store.steps import Batch, Round, Rows, Script, text
from standfast.wings.audit.words import Decision
from standfast.wings.queues import depth
from standfast.wings.records import reads
from standfast.wings.workflows.words import Progress

KEYS = "\x1fworkflow:"
"""Goes before a workflow's name where its key is stored. No queue can have such a name: names are printable."""
MOST_ROWS = 1000
MOST_BYTES = 4 << 20
"""How many rows, and how many bytes, of a start go into one statement."""
STEPS_AT_ONCE = 2000
LARGEST_SHOWN = 100_000
"""When a workflow is read, a step's result of more bytes than this is left out."""
MOST_SHOWN = 16 << 20
"""After about this many bytes of results, the results of further steps are left out."""
UNWANTED = "its workflow was cancelled"


# --- starting


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow to store. A step comes after its parents, which are given as indexes into `steps`."""

    id: str
    name: str
    jobs: Sequence[NewJob]
    steps: Sequence[str]
    parents: Sequence[Sequence[int]]
    fingerprint: str
    key: str | None = None


Started = str | Conflict | tuple[str, Full]
"""The workflow's id; or a Conflict, if its key belongs to another workflow; or the queue that has no room for it."""


@writes(room=ROOM_TO_ACCEPT, patience=Patience.LONG, size=lambda start: len(start.jobs))
def start(round_: Round, starts: Sequence[Start]) -> Script[list[Started]]:
    """Store workflows. Answer each with its id, a Conflict, or the name of a full queue with its Full."""
    answers = []
    for each in starts:
        known = yield from known_queues({job.queue for job in each.jobs})
        yield from depth.lock(known)
        taken = None if each.key is None else (yield from _key_taken(round_, each, each.key))
        full = (yield from _full(each, known)) if taken is None else None
        if full is not None and each.key is not None:
            yield "forget_keys", {"ids": text([each.id])}
        if taken is None and full is None:
            yield from _store(round_, each, known)
        answers.append(taken or full or each.id)
    return answers


def _key_taken(round_: Round, each: Start, key: str) -> Script[str | Conflict | None]:
    """Take the workflow's key. If another workflow has it, return that one's id, or a Conflict if the steps differ."""
    mine = (KEYS + each.name, key, each.id)
    owners: Rows = []
    while not owners:  # a key that just expired may be deleted between the two statements
        yield "take_keys", [(*mine, each.fingerprint, round_.now)]
        owners = yield "key_owners", {"keys": text([mine])}
    [(_, owner, fingerprint, _, ended)] = owners
    if owner == each.id:
        return each.id if ended else None  # it was stored before, by a commit that was not acknowledged, and has ended
    return owner if fingerprint == each.fingerprint else Conflict(owner)


def _full(each: Start, known: Queues) -> Script[tuple[str, Full] | None]:
    """Return a queue that has no room for the steps that can start at once; None if there is none."""
    first = [job for job, parents in zip(each.jobs, each.parents, strict=True) if not parents]
    refused: Answers = {}
    yield from depth.admitted(first, known, refused)
    return next(((job.queue, refused[job.id]) for job in first if job.id in refused), None)


def _store(round_: Round, each: Start, known: Queues) -> Script[None]:
    numbers = yield from next_numbers(len(each.jobs))
    queues, total = text(sorted(known)), len(numbers)
    extent = (numbers[0], numbers[-1], total, total)
    [(new,)] = yield "insert_workflows", [(each.id, each.name, Progress.RUNNING, *extent, queues, round_.now)]
    if not new:
        return
    for bodies in _bites(list(_bodies(round_, each, numbers)), [len(job.payload) for job in each.jobs]):
        yield "insert_step_bodies", bodies
    for rows in _bites(list(_hot_rows(round_, each, numbers, known)), [0] * total):
        yield "insert_step_jobs", rows
    round_.notices[NoticeKind.WORKFLOW_STARTED, ""].append(each.id)


def _bodies(round_: Round, each: Start, numbers: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for place, before in enumerate(each.parents):
        for parent in before:
            children[parent].append(numbers[place])
    for place, (n, job) in enumerate(zip(numbers, each.jobs, strict=True)):
        before = [numbers[parent] for parent in each.parents[place]]
        links = (text(before) if before else None, text(children[place]) if place in children else None)
        yield (n, job.id, job.payload, job.details, round_.now, each.id, each.steps[place], *links)


def _hot_rows(round_: Round, each: Start, numbers: Sequence[int], known: Queues) -> Iterator[tuple[Any, ...]]:
    rows: dict[Terms, dict[str, Any]] = {}
    for n, job, parents in zip(numbers, each.jobs, each.parents, strict=True):
        terms = Terms(job.queue, job.handler, job.priority, job.delay, job.at, job.expires, job.budget, job.lease)
        row = rows.get(terms) or rows.setdefault(terms, hot_row(round_, terms, known[job.queue]))
        state, ready_at, expires_at = State.QUEUED, row["ready_at"], row["expires_at"]
        if parents:
            state, ready_at, expires_at = State.WAITING, None, None
        else:
            round_.note_work(job.queue, row["due_at"] - round_.now)
        round_.notices[NoticeKind.ENQUEUED, job.queue].append(job.id)
        limits = (row["budget"], row["asked_lease"], row["asked_expiry"], expires_at)
        where = (job.queue, job.handler, row["priority"], state, row["due_at"], ready_at, round_.now)
        yield (n, *where, *limits, len(parents))


def _bites(rows: Batch, sizes: Sequence[int]) -> Iterator[Batch]:
    """Split rows into batches that fit into one statement."""
    start = size = 0
    for place, more in enumerate(sizes):
        size += more
        if place - start >= MOST_ROWS or size > MOST_BYTES:
            yield rows[start : place + 1]
            start, size = place + 1, 0
    if start < len(rows):
        yield rows[start:]


# --- cancelling


class Cancellation(NamedTuple):
    """A workflow to cancel."""

    id: str
    by: str


@writes(patience=Patience.LONG)
def cancel(round_: Round, cancellations: Sequence[Cancellation]) -> Script[list[bool]]:
    """Cancel every step that is not final, and ask running ones to stop. Answer for each workflow whether it exists."""
    answers = []
    for workflow, by in cancellations:
        found = yield "workflow_by_id", {"id": workflow}
        if found:
            yield from _cancel(round_, WorkflowRow(*found[0]), by)
        answers.append(bool(found))
    return answers


def _cancel(round_: Round, workflow: WorkflowRow, by: str) -> Script[None]:
    rows = yield "unfinished_steps", {"id": workflow.id, "first": workflow.first_n, "last": workflow.last_n}
    running = [row for row in rows if row[4] == State.RUNNING]
    if running:
        yield "ask_all_to_stop", {"numbers": text([n for n, *_ in running])}
        round_.note_work(STOPS, 0.0)
    for _, _, job_id, queue, *_ in running:
        round_.notices[NoticeKind.CANCEL_ASKED, queue].append(job_id)
    ended = [_unwanted(row, by) for row in rows if row[4] != State.RUNNING]
    if ended:
        yield from apply_decided(round_, ended)


def _unwanted(row: tuple[Any, ...], by: str) -> Transition:
    """End a step. Ending a letter discards it, which goes on the audit chain like any discard."""
    n, token, job_id, queue, state, attempts = row
    decisions = (Decision(kind="discard", by=by, outcome="cancelled"),) if State(state) in LETTERS else ()
    carries = (*asked_by(by), *decisions)
    return Transition(n, token, job_id, queue, Move.CANCEL, State(state), attempts, warning=UNWANTED, carries=carries)


# --- looking


class WorkflowRow(NamedTuple):
    """A workflow as stored. Fields are in the order of the statements' columns; times are queue time."""

    id: str
    name: str
    state: str
    first_n: int
    last_n: int
    total: int
    unfinished: int
    stopped: int
    dropped: int
    created_at: float
    finished_at: float | None


class StepRow(NamedTuple):
    """A step as `one` reads it. Fields are in the order of the statement's columns."""

    n: int
    id: str
    name: str
    queue: str
    handler: str
    state: str
    attempts: int
    due_at: float
    parked_on: str | None
    pending: int
    parents: str | None
    size: int | None
    result: str | None
    failure: str | None
    warning: str | None
    finished_at: float | None


def one(workflow: str) -> Script[tuple[WorkflowRow, list[StepRow]] | None]:
    """Read a workflow with its steps, in the order of the graph; None if no workflow has this id."""
    found = yield "workflow_by_id", {"id": workflow}
    if not found:
        return None
    row = WorkflowRow(*found[0])
    steps: list[StepRow] = []
    after, shown = row.first_n - 1, 0
    while True:
        most = LARGEST_SHOWN if shown < MOST_SHOWN else 0
        among = {"id": row.id, "after": after, "last": row.last_n, "most": most, "limit": STEPS_AT_ONCE}
        rows = [StepRow(*each) for each in (yield "steps_of_workflow", among)]
        steps += rows
        shown += sum(len(each.result or "") for each in rows)
        if len(rows) < STEPS_AT_ONCE:
            return row, steps
        after = rows[-1].n


def list_workflows(state: str | None, limit: int, before: str | None) -> Script[list[WorkflowRow]]:
    """Read workflows, the newest first; with `before`, only those older than that id."""
    last = before or "\U0010ffff"
    rows = yield "list_workflows", {"state": state, "limit": limit, "before": last}
    return [WorkflowRow(*row) for row in rows]


def stuck(limit: int) -> Script[list[tuple[str, str, int, int]]]:
    """Read the stuck workflows: id, name, how many steps stopped, how many are not final."""
    return [(*row,) for row in (yield "stuck_workflows", {"limit": limit})]


def result(n: int) -> Script[str | None]:
    """Read the result of one step."""
    rows = yield "result_of_step", {"n": n}
    return rows[0][0] if rows else None


# --- forgetting


def prune(round_: Round, limit: int) -> Script[int]:
    """Delete workflows past their retention, each with all its steps. Return how many steps that was."""
    deleted = 0
    for workflow, first, last, total in (yield "prunable_workflows", {"now": round_.now, "limit": limit}):
        if deleted and deleted + total > limit:
            return limit
        [(numbers,)] = yield "numbers_of_steps", {"id": workflow, "first": first, "last": last}
        yield from reads.delete_whole(round_, numbers)
        yield "delete_workflows", {"ids": text([workflow])}
        deleted += total
    return deleted
