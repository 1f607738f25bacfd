"""Letters that come from another store: stored as dead, whole, under their own ids, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from standfast.job import LedgerEntry
from standfast.lifecycle import NoticeKind
from standfast.spine.intake import next_numbers
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.records.reads import KeptLook
from standfast.wings.threads import scripts as threads

Arrived = Literal["imported", "known", "without_key"]
"""What became of a letter: it is stored, it was known before, or it is stored but its key belongs to another job."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A letter on its way in. Texts are JSON; times are queue time."""

    id: str
    queue: str
    handler: str
    priority: int
    payload: str
    details: str
    created_at: float
    first_seen_at: float
    entered_at: float
    finished_at: float
    failure: str
    triage: str
    cause: str
    """The cause of its death, as the letter's fingerprint."""
    attempts: int
    generation: int
    replays: int
    decision: Decision
    landed: str | None = None
    key: str | None = None
    fingerprint: str | None = None
    thread_key: str | None = None
    coalesced: str | None = None
    history: tuple[str, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    traceback: tuple[int, str] | None = None
    """The attempt that raised last, and where."""
    looks: tuple[KeptLook, ...] = ()


@writes(room=ROOM_TO_ACCEPT, size=len)
def bring_in(round_: Round, batches: Sequence[Sequence[Arrival]]) -> Script[list[list[Arrived]]]:
    """Store letters that are not and never were in this store; return what became of each."""
    answers = []
    for arrivals in batches:
        ids = {"ids": text([each.id for each in arrivals])}
        known = {job_id for (job_id,) in (*(yield "known_ids", ids), *(yield "former_letters", ids))}
        fresh = {each.id: each for each in arrivals if each.id not in known}
        yield "ensure_queues", {"queues": text(sorted({each.queue for each in fresh.values()}))}
        keys = yield from _take_keys(round_, list(fresh.values()))
        yield from _write(round_, list(fresh.values()), keys)
        keyless = {each.id for each in fresh.values() if each.key is not None and each.id not in keys}
        answers.append([_arrived(each, set(fresh), keyless) for each in arrivals])
    return answers


def _arrived(arrival: Arrival, fresh: set[str], keyless: set[str]) -> Arrived:
    if arrival.id not in fresh:
        return "known"
    return "without_key" if arrival.id in keyless else "imported"


def _take_keys(round_: Round, arrivals: Sequence[Arrival]) -> Script[dict[str, str]]:
    """Take the keys that are free; return them by job."""
    keyed = [each for each in arrivals if each.key is not None]
    if not keyed:
        return {}
    rows = [(each.queue, each.key, each.id, each.fingerprint, round_.now) for each in keyed]
    yield "take_keys", sorted(rows, key=lambda row: row[:2])
    owners = yield "key_owners", {"keys": text([(each.queue, each.key, each.id) for each in keyed])}
    ours = {job_id for job_id, owner, *_ in owners if job_id == owner}
    return {each.id: each.key for each in keyed if each.key is not None and each.id in ours}


def _write(round_: Round, arrivals: Sequence[Arrival], keys: dict[str, str]) -> Script[None]:
    if not arrivals:
        return
    numbers = yield from next_numbers(len(arrivals))
    pairs = list(zip(numbers, arrivals, strict=True))
    yield "import_bodies", [_body(n, each, keys) for n, each in pairs]
    yield "import_jobs", [_job(n, each) for n, each in pairs]
    yield "import_endings", [(n, each.failure, each.triage, each.replays, each.cause) for n, each in pairs]
    lines = [(n, place, line) for n, each in pairs for place, line in enumerate(each.history, start=1)]
    if lines:
        yield "import_history", lines
    effects = [_effect(round_, n, entry) for n, each in pairs for entry in each.ledger]
    if effects:
        yield "write_effects", effects
    raised = [(n, *each.traceback) for n, each in pairs if each.traceback is not None]
    if raised:
        yield "write_tracebacks", raised
    looks = [_look(n, place, look) for n, each in pairs for place, look in enumerate(each.looks, start=1)]
    if looks:
        yield "write_looks", looks
    for each in arrivals:
        audit.record(round_, each.decision)
        round_.notices[NoticeKind.IMPORTED, each.queue].append(each.id)


def _body(n: int, each: Arrival, keys: dict[str, str]) -> tuple[Any, ...]:
    written = (n, each.id, each.payload, keys.get(each.id), each.details, each.created_at)
    return (*written, each.first_seen_at, each.thread_key, each.generation, each.coalesced)


def _job(n: int, each: Arrival) -> tuple[Any, ...]:
    gate = None if each.thread_key is None else threads.gate_of(each.queue, each.thread_key)
    entered = (each.queue, each.handler, each.priority, each.entered_at, each.attempts)
    return (n, *entered, each.finished_at, each.landed, gate)


def _look(n: int, place: int, look: KeptLook) -> tuple[Any, ...]:
    return (n, place, look.name, look.verdict, look.receipt, look.at, look.attempt)


def _effect(round_: Round, n: int, entry: LedgerEntry) -> tuple[Any, ...]:
    written = (1, entry.at or round_.now, entry.late, entry.attempt, None)
    return (n, entry.name, entry.state, entry.receipt, entry.verdict, *written)
