"""Scripts that store imported records, each once, however often and by however many processes they are handed in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import msgspec

from standfast.job import NewJob, Receipt
from standfast.lifecycle import Move, State, Transition, asked_by
from standfast.rules import OURS
from standfast.spine.apply import apply
from standfast.spine.claim_requests import Conflict, Full
from standfast.spine.intake import enqueue
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.imports.words import Outcome
from standfast.wings.letters import arrivals
from standfast.wings.letters.arrivals import Arrival, Arrived
from standfast.wings.records.reads import JobRow
from standfast.wings.threads import scripts as threads

ONE_AT_A_TIME = threads.gate_of(f"{OURS}imports", "all")
"""A name that every import locks first: of two that bring one record, the second sees what the first committed."""


IMPORTED = "import:"
"""Prefix of an id that an import remembers: a letter with that id may still come from a file of letters."""


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A job to store, with its past. `history` is JSON text, in queue time."""

    job: NewJob
    attempts: int = 0
    landed: str | None = None
    history: tuple[str, ...] = ()
    result: str | None = None
    """The result, if the job is finished."""


class Refused(msgspec.Struct, frozen=True):
    """A job that was not stored, and why."""

    why: str
    full: bool = False
    """Whether its queue has no room now: later it may have."""


Came = Outcome | Refused
Before = Literal["known"] | Refused


def _gate(_batches: Any) -> Script[list[str]]:
    yield from ()
    return [ONE_AT_A_TIME]


def _jobs(batches: Any) -> chain[NewJob]:
    return chain.from_iterable((each.job for each in batch) for batch in batches)


@writes(room=ROOM_TO_ACCEPT, size=len, gates=_gate)
def bring_in_letters(round_: Round, batches: Sequence[Sequence[Arrival]]) -> Script[list[list[Arrived | Refused]]]:
    """Store letters that are not here yet, as `dead import` does; answer with the outcome of each."""
    answers = []
    for batch in batches:
        before = yield from came_before(batch)
        fresh = [each for each in batch if each.id not in before]
        [came] = yield from arrivals.bring_in(round_, [fresh])
        became = {**before, **{each.id: answer for each, answer in zip(fresh, came, strict=True)}}
        answers.append([became[each.id] for each in batch])
    return answers


@writes(room=ROOM_TO_ACCEPT, size=len, newcomers=_jobs, gates=_gate)
def bring_in_runnable(round_: Round, batches: Sequence[Sequence[Incoming]]) -> Script[list[list[Came]]]:
    """Store jobs that will run, with their attempts and their history; answer with the outcome of each."""
    answers = []
    for batch in batches:
        came = yield from _bring_in(round_, batch)
        tried = [each for each in batch if came[each.job.id] == "queued" and (each.attempts or each.landed)]
        if tried:
            yield "keep_attempts", [(each.job.id, each.attempts, each.landed) for each in tried]
        yield from _keep_history([each for each in batch if came[each.job.id] == "queued"])
        answers.append([_outcome(came[each.job.id], each) for each in batch])
    return answers


@writes(room=ROOM_TO_ACCEPT, size=len, newcomers=_jobs, gates=_gate)
def bring_in_finished(round_: Round, batches: Sequence[Sequence[Incoming]]) -> Script[list[list[Came]]]:
    """Store jobs that were finished elsewhere as completed ones, so that their keys are known here."""
    answers = []
    for batch in batches:
        came = yield from _bring_in(round_, batch)
        fresh = [each for each in batch if came[each.job.id] == "queued"]
        for each in fresh:
            [row] = yield "job_by_id", {"id": each.job.id}
            yield from apply(round_, [_completion(JobRow(*row), each)])
        answers.append(["completed" if each in fresh else came[each.job.id] for each in batch])
    return answers


def known(ids: Sequence[str]) -> Script[set[str]]:
    """Return which jobs are here, were brought by an import before, or were letters that have ended."""
    here = yield "known_ids", {"ids": text([*ids])}
    gone = yield "former_letters", {"ids": text([*ids, *(f"{IMPORTED}{each}" for each in ids)])}
    return {job_id.removeprefix(IMPORTED) for (job_id,) in (*here, *gone)}


def came_before(records: Sequence[NewJob | Arrival]) -> Script[dict[str, Before]]:
    """Answer for records whose ids are known: the same record again, or another record with the same id."""
    here = yield from known([each.id for each in records])
    if not here:
        return {}
    payloads: dict[str, str] = dict((yield "imported_payloads", {"ids": text(sorted(here))}))
    same = {each.id for each in records if payloads.get(each.id) in {None, each.payload}}
    return {each.id: "known" if each.id in same else other_payload(each.id) for each in records if each.id in here}


def other_payload(job_id: str) -> Refused:
    """Refuse a record: its id is known, but belongs to other work."""
    return Refused(
        f"an earlier record brought another payload under its id, as job {job_id}: the map was another one, or two "
        "sources use the same ids; in that case name this one with --source NAME"
    )


def _bring_in(round_: Round, batch: Sequence[Incoming]) -> Script[dict[str, Came]]:
    """Store the jobs that are not here yet as queued ones; return the outcome of each by its id."""
    before = yield from came_before([each.job for each in batch])
    came: dict[str, Came] = {**before}
    fresh = [each.job for each in batch if each.job.id not in before]
    stored = yield from enqueue(round_, fresh) if fresh else _nobody()
    for job, answer in zip(fresh, stored, strict=True):
        came[job.id] = _came(job, answer)
    settled = [(f"{IMPORTED}{job.id}", round_.now) for job in fresh if not isinstance(came[job.id], Refused)]
    if settled:
        yield "remember_imported", settled
    return came


def _nobody() -> Script[list[Receipt | Conflict | Full]]:
    yield from ()
    return []


def _came(job: NewJob, answer: Receipt | Conflict | Full) -> Came:
    if isinstance(answer, Full):
        return Refused(f"queue {job.queue!r} is full: it has {answer.most} jobs due; import it again later", full=True)
    if isinstance(answer, Conflict):
        return other_key(job, answer.job_id)
    by_outcome: dict[str, Came] = {"duplicate": "duplicate", "coalesced": "coalesced"}
    return by_outcome.get(answer.outcome, "queued")


def other_key(job: NewJob, owner: str) -> Refused:
    """Refuse a record: its idempotency key belongs to another job."""
    key = f"its idempotency key {job.idempotency_key!r} belongs to job {owner}, with another payload"
    return Refused(f"{key}; decide which one is right")


def _outcome(came: Came, incoming: Incoming) -> Came:
    return "tried" if came == "queued" and incoming.attempts else came


def _keep_history(batch: Sequence[Incoming]) -> Script[None]:
    lines = [(each.job.id, place, line) for each in batch for place, line in enumerate(each.history, start=1)]
    if lines:
        yield "keep_imported_history", lines


def _completion(row: JobRow, incoming: Incoming) -> Transition:
    here = (row.n, row.token, row.id, row.queue, Move.RESOLVE, State.QUEUED)
    return Transition(*here, result=incoming.result, carries=asked_by("import", "finished in its old store"))
