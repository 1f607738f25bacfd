"""A job as a person sees it, made from what the store has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from standfast.failure import Failure, reason
from standfast.job import Attempt, Coalesced, Details, JobView
from standfast.lifecycle import FINAL, LETTERS, State, Triage, view
from standfast.profiles import defaults_for
from standfast.queue.accept import RISKS
from standfast.queue.payload import sha256
from standfast.rules import QueueRules
from standfast.store.reads import JobRecord, JobRow

_decode = msgspec.json.decode
Moment = Callable[[float | None], Any]


def moments(skew: float) -> Moment:
    """Give the reader of queue times: `skew` is wall time minus queue time, as of now."""

    def moment(at: float | None) -> datetime | None:
        return None if at is None else datetime.fromtimestamp(at + skew, UTC)

    return moment


SAME = (
    *("id", "queue", "handler", "priority", "attempts", "deferrals", "generation", "worker", "idempotency_key"),
    *("thread_key", "superseded_by", "parked_on", "warning", "fingerprint", "replays", "policy_snapshot", "workflow"),
)
"""Fields a person sees as the store has them."""
TIMES = ["created_at", "due_at", "ready_at", "claimed_at", "finished_at", "expires_at"]
TEXTS = ["payload", "result"]
RISING = (None, *RISKS)
"""A job's risk is the higher of its handler's and its caller's."""


def job_view(record: JobRecord, *, now: float, skew: float) -> JobView:
    """Put a job together for reading."""
    row, moment = record.row, moments(skew)
    details = msgspec.json.decode(row.details, type=Details)
    history = [_attempt(line, moment) for line in record.history]
    failures = [_failure(line) for line in history if line.cls is not None]
    failure = _last_failure(row, failures)
    return JobView(
        **{name: getattr(row, name) for name in SAME},
        **{name: moment(getattr(row, name)) for name in TIMES},
        **{name: _read(getattr(row, name)) for name in TEXTS},
        coalesced=None if row.coalesced is None else _decode(row.coalesced, type=Coalesced),
        state=State(row.state),
        view=_view(row, now),
        queue_reason=details.queue_reason,
        reason=None if failure is None else failure.reason_code,
        payload_sha256=sha256(row.payload),
        max_attempts=_max_attempts(row),
        first_seen_at=moment(row.first_seen_at or row.created_at),
        last_entered_at=moment(row.entered_at),
        session=details.session,
        requester=details.requester,
        labels=details.labels or {},
        risk=max(details.risk, row.handler_risk, key=RISING.index),
        progress=None,
        failure=failure,
        first_failure=failures[0] if failures else failure,
        history=history,
        effects=[],
        triage=_triage(row),
    )


class Page(list[JobView]):
    """Jobs, newest first. `next_cursor` leads to the older ones; it is None when there are none."""

    next_cursor: int | None = None


def page(records: list[JobRecord], limit: int, *, now: float, skew: float) -> Page:
    """Make a page of what was read: one record more than the page holds tells that there is more."""
    found = Page(job_view(record, now=now, skew=skew) for record in records[:limit])
    if len(records) > limit:
        found.next_cursor = records[limit - 1].row.n
    return found


def _view(row: JobRow, now: float) -> str:
    return view(row.state, attempts=row.attempts, due_later=row.due_at > now, parked=row.parked_on is not None)


def _read(text: str | None) -> Any:
    return None if text is None else _decode(text)


def _attempt(line: str, moment: Moment) -> Attempt:
    entry = _decode(line)
    entry["at"] = moment(entry["at"])
    return msgspec.convert(entry, Attempt)


def _failure(line: Attempt) -> Failure:
    return Failure(
        cls=line.cls,  # type: ignore[arg-type]
        landed=line.landed,  # type: ignore[arg-type]
        reason_code=line.reason_code or "",
        error_kind=line.error_kind,
        message=line.message or "",
        advice=reason(line.reason_code or "").advice,
    )


def _last_failure(row: JobRow, failures: list[Failure]) -> Failure | None:
    """Give what stands in the way now: a letter's failure, else the last attempt's; none once it is done."""
    if row.state in FINAL:
        return None
    if row.failure is not None and row.state in LETTERS:
        return msgspec.json.decode(row.failure, type=Failure)
    return failures[-1] if failures else None


def _triage(row: JobRow) -> Triage | None:
    return None if row.triage is None else msgspec.json.decode(row.triage, type=Triage)


def _max_attempts(row: JobRow) -> int:
    """Give the ceiling a claim stamped, or the one the next claim will stamp."""
    if row.max_attempts is not None:
        return row.max_attempts
    rules = msgspec.json.decode(row.rules, type=QueueRules) if row.rules else defaults_for(row.queue)
    return row.round_start + (row.budget or rules.attempts)
