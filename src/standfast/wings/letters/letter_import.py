"""Imports exported letters: stored as dead, under their own ids, so that importing a file twice stores each once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError, StandfastError
from standfast.failure import Action, Landed
from standfast.failure.fingerprint import fingerprint as cause_of
from standfast.failure.traceback_text import as_kept
from standfast.job import HTTP, Coalesced, Details, LedgerEntry, QueueReason, Risk
from standfast.spine.accept import checked_name
from standfast.spine.payload import canonical, fingerprint, parse, sha256
from standfast.store.store import Store
from standfast.views import REPLAY_STATUSES, Attempt, FailureView, Heard, Progress, Triage
from standfast.wings.approvals.people import checked_actor
from standfast.wings.audit.words import Decision
from standfast.wings.http.words import HttpRequest
from standfast.wings.letters import arrivals as arrival_scripts
from standfast.wings.letters.arrivals import Arrival
from standfast.wings.letters.letter_export import FORMAT, Place
from standfast.wings.records.reads import KeptLook
from standfast.wings.threads.scripts import NO_CALLERS

BITE = 200
"""How many letters one transaction stores."""
LONGEST_LINE = 16 << 20
"""The most bytes of one letter."""
WAITING = frozenset({"scheduled", "approval_pending", "none"})
"""Statuses that no process here acts on: such a letter waits for a person."""


class Line(msgspec.Struct, kw_only=True):
    """A letter as `export` writes it; fields not named here are only for readers."""

    format: int
    id: str
    queue: str
    handler: str
    payload: msgspec.Raw
    failure: FailureView
    created_at: datetime
    first_seen_at: datetime
    last_entered_at: datetime
    finished_at: datetime
    triage: Triage | None = None
    priority: int = 0
    attempts: int = 0
    generation: int = 0
    replays: int = 0
    idempotency_key: str | None = None
    thread_key: str | None = None
    session: str | None = None
    requester: str | None = None
    requesters: list[str] = []
    own_risk: Risk | None = None
    labels: dict[str, str] = {}
    queue_reason: QueueReason = "event"
    collected: bool = False
    coalesced: Coalesced | None = None
    history: list[Attempt] = []
    ledger: list[LedgerEntry] = []
    details: Details = Details()
    """All that its caller said. The fields above take precedence: older files have only those."""
    looks: list[KeptLook] = []


_read = msgspec.json.Decoder(Line).decode


async def bring_in(store: Store, source: Place, *, by: str, reason: str, progress: Heard) -> dict[str, int]:
    """Store every letter of a file that is not here yet; return how many came, and what became of the rest."""
    actor = checked_actor(by, reason)
    counts: Counter[str] = Counter(imported=0, known=0, without_key=0)
    with _opened(source) as file:
        async for first, lines in _bites(file):
            arrivals = _arrivals(lines, first, counts, actor, store.skew())
            counts.update(await store.write(arrival_scripts.bring_in, arrivals))
            progress(Progress("imported", counts.total(), None))
    return {**counts, "imported": counts["imported"] + counts["without_key"]}


async def _bites(file: IO[Any]) -> AsyncIterator[tuple[int, list[bytes]]]:
    first = 1
    while lines := await run_in_thread(_next_lines, file):
        yield first, lines
        first += len(lines)


def _next_lines(file: IO[Any]) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < BITE and (line := file.readline(LONGEST_LINE)):
        found.append(line.encode() if isinstance(line, str) else line)
    return found


@contextmanager
def _opened(source: Place) -> Iterator[IO[Any]]:
    if not isinstance(source, str | os.PathLike):
        yield source
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 - closed below; only a failed opening is reported here
    except OSError as error:
        raise ConfigurationError(f"cannot read {source}: {error}; name another file") from error
    with file:
        yield file


def _arrivals(
    lines: list[bytes], first: int, counts: Counter[str], actor: dict[str, Any], skew: float
) -> list[Arrival]:
    """Read a batch of lines; the error of a bad line names its number, and none of its batch is stored."""
    found: dict[str, Arrival] = {}
    for number, raw in enumerate(lines, start=first):
        if not raw.strip():
            continue
        try:
            arrival = _arrival(_read(raw), actor, skew)
        except (msgspec.MsgspecError, StandfastError, UnicodeError) as error:
            raise ConfigurationError(
                f"line {number} is not a letter of standfast: {error}; {counts.total()} letters before it were "
                "imported: correct the file and import it again; each letter is imported once"
            ) from error
        found.setdefault(arrival.id, arrival)
    return list(found.values())


def _arrival(line: Line, actor: dict[str, Any], skew: float) -> Arrival:
    _check(line)
    payload = canonical(parse(bytes(line.payload)))
    decision = Decision(
        kind="import", job=line.id, queue=line.queue, payload_sha256=sha256(payload), outcome="imported", **actor
    )
    return Arrival(
        id=line.id,
        queue=line.queue,
        handler=line.handler,
        priority=line.priority,
        payload=payload,
        details=_details(line),
        created_at=line.created_at.timestamp() - skew,
        first_seen_at=line.first_seen_at.timestamp() - skew,
        entered_at=line.last_entered_at.timestamp() - skew,
        finished_at=line.finished_at.timestamp() - skew,
        failure=_text(line.failure.plain),
        triage=_text(_triage(line.triage)),
        cause=cause_of(line.queue, line.handler, line.failure),
        attempts=line.attempts,
        generation=line.generation,
        replays=line.replays,
        decision=decision,
        landed=_landed(line),
        key=line.idempotency_key,
        fingerprint=fingerprint(line.handler, _same(line.handler, payload)),
        thread_key=line.thread_key,
        coalesced=None if line.coalesced is None else _text(line.coalesced),
        history=tuple(_history(each, skew) for each in line.history),
        ledger=tuple(_entry(each, skew) for each in line.ledger),
        traceback=_traceback(line),
        looks=tuple(each._replace(at=each.at - skew) for each in line.looks),
    )


def _traceback(line: Line) -> tuple[int, str] | None:
    """Return the traceback of a letter with the attempt that raised it; the file may have been edited by hand."""
    failed = next((each for each in reversed(line.history) if each.cls is not None), None)
    if line.failure.traceback is None or failed is None:
        return None
    return failed.attempt, as_kept(line.failure.traceback)


def _check(line: Line) -> None:
    if line.format != FORMAT:
        raise ConfigurationError(f"its format is {line.format}, and this library reads {FORMAT}")
    names = {"id": line.id, "queue": line.queue, "handler": line.handler, "thread_key": line.thread_key}
    for what, value in {**names, "requester": line.requester, "session": line.session}.items():
        if value is not None:
            checked_name(what, value.replace(NO_CALLERS, " ") if what == "thread_key" else value)
    for each in line.requesters:
        checked_name("requester", each)


def _details(line: Line) -> str:
    return _text(
        msgspec.structs.replace(
            line.details,
            trace=None,
            requester=line.requester,
            session=line.session,
            risk=line.own_risk,
            labels=line.labels or None,
            queue_reason=line.queue_reason,
            collected=line.collected,
            also_requested_by=tuple(each for each in line.requesters if each != line.requester),
            amended=line.generation,
            amenders=tuple(
                dict.fromkeys(each.by for each in line.history if each.reason_code == "amended" and each.by)
            ),
        )
    )


def _triage(given: Triage | None) -> Triage:
    """Keep what was decided about a letter; an automatic replay elsewhere waits for a person here."""
    if given is None:
        return Triage(action=Action.MANUAL_REVIEW, rule="import")
    left = given.replay_status in WAITING or given.replay_status not in REPLAY_STATUSES
    status = "pending_review" if left else given.replay_status
    return msgspec.structs.replace(given, replay_status=status, replay_at=None, approval=None)


def _landed(line: Line) -> str:
    known = [each.landed for each in line.history] + [line.failure.landed]
    return str(Landed.MAYBE if Landed.MAYBE in known else Landed.NO)


def _entry(entry: LedgerEntry, skew: float) -> LedgerEntry:
    """Return a ledger entry in this store's time; an entry of an older export has no time."""
    return msgspec.structs.replace(entry, at=entry.at - skew) if entry.at else entry


def _history(attempt: Attempt, skew: float) -> str:
    return _text({**msgspec.to_builtins(attempt), "at": attempt.at.timestamp() - skew})


def _same(handler: str, payload: str) -> str:
    """Return what jobs with the same key must have in common: a request's identity, or the payload."""
    if handler != HTTP:
        return payload
    try:
        return msgspec.json.decode(payload, type=HttpRequest).identity
    except msgspec.DecodeError:  # the job died of that
        return payload


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
