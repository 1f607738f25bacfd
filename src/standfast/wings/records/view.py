"""A job as a person sees it, made from what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.failure import Class, Failure, reason
from standfast.job import HTTP, Coalesced, Details, higher
from standfast.lifecycle import FINAL, LETTERS, State, view
from standfast.profiles import stored_rules
from standfast.redact import is_secret_name
from standfast.spine.payload import sha256
from standfast.views import Attempt, FailureView, JobProgress, JobView, Triage
from standfast.wings.records.advice import advised
from standfast.wings.records.effects_view import Moment, effects_shown
from standfast.wings.records.reads import JobRecord, JobRow, KeptProgress, StoredTraceback

_decode = msgspec.json.decode


def moments(skew: float) -> Moment:
    """Return a function that reads queue times: `skew` is wall time minus queue time, as of now."""

    def moment(at: float | None) -> datetime | None:
        return None if at is None else datetime.fromtimestamp(at + skew, UTC)

    return moment


SAME = (
    *("id", "queue", "handler", "priority", "attempts", "deferrals", "generation", "worker", "idempotency_key"),
    *("thread_key", "superseded_by", "parked_on", "warning", "fingerprint", "replays", "policy_snapshot", "workflow"),
)
"""Fields that a person sees as they are stored."""
DETAILS = tuple({*Details.__struct_fields__} & {*JobView.__struct_fields__} - {"labels", "risk"})
"""Details that a person sees as the caller gave them."""
TIMES = ["created_at", "due_at", "ready_at", "claimed_at", "finished_at", "expires_at"]
HIDDEN = "***"
LAPSED = "lease_lapsed"
"""Why a running job makes no progress: its worker has been silent for longer than the lease, and may be gone."""


def job_view(record: JobRecord, *, now: float, skew: float) -> JobView:
    """Build the view of a job."""
    row, moment = record.row, moments(skew)
    details = msgspec.json.decode(row.details, type=Details)
    history = [_attempt(line, moment) for line in record.history]
    failures = [_failure(line) for line in history if line.cls is not None]
    triage = _triage(row, moment)
    failure = _last_failure(row, failures)
    if failure is not None:
        failure = advised(failure, State(row.state), triage, history)
    shown = _shown(failure, history, record.traceback)
    return JobView(
        **{name: getattr(row, name) for name in SAME},
        **{name: moment(getattr(row, name)) for name in TIMES},
        **{name: getattr(details, name) for name in DETAILS},
        payload=shown_payload(row.handler, row.payload),
        result=_read(row.result),
        coalesced=None if row.coalesced is None else _decode(row.coalesced, type=Coalesced),
        state=State(row.state),
        view=_view(row, now),
        reason=_reason(record, failure, now),
        payload_sha256=sha256(row.payload),
        max_attempts=_max_attempts(row),
        first_seen_at=moment(row.first_seen_at or row.created_at),
        last_entered_at=moment(row.entered_at),
        requesters=list(details.requesters),
        labels=details.labels or {},
        risk=higher(details.risk, row.handler_risk),
        progress=_progress(record.progress, moment),
        failure=shown,
        first_failure=_first_failure(failures, failure),
        history=history,
        effects=effects_shown(record.effects, record.looks, moment),
        triage=triage,
    )


def _reason(record: JobRecord, failure: Failure | None, now: float) -> str | None:
    holder = record.holder
    if holder is not None and (now - holder.heard_at > holder.lease or not holder.of_this_boot):
        return LAPSED
    return waits(record) if failure is None else failure.reason_code


def waits(record: JobRecord) -> str | None:
    """Say what a step waits for; None if the job does not wait for another one."""
    if record.row.state != State.WAITING:
        return None
    return waits_for([blocker(*each) for each in record.waits_for])


def blocker(step: str, state: str, failure: str | None) -> Blocker:
    """Return a step that other steps wait for; an earlier failure does not count while the step is at work."""
    stopped = State(state) in LETTERS and failure is not None
    return Blocker(step, State(state), msgspec.json.decode(failure, type=Failure) if stopped else None)  # type: ignore[arg-type]


class Page(list[JobView]):
    """Jobs, newest first. `next_cursor` leads to the older ones; it is None when there are none.

    `scanned` is how many jobs were read. A page that had to skip many ends early: it may be short, even empty, and
    still have a `next_cursor`.
    """

    next_cursor: int | None = None
    scanned: int | None = None


def whole_page(limit: int) -> int:
    """Check the size of a page; return how many jobs to read: one more, which shows whether there are others."""
    return _from_one("limit", limit) + 1


def after(cursor: int | None) -> int | None:
    """Check where a page begins."""
    return None if cursor is None else _from_one("cursor", cursor, ", the last page's next_cursor")


def one_of(what: str, given: object, known: Iterable[str]) -> Any:
    """Check a word in a filter; None means any."""
    words = [str(word) for word in known]
    if given is not None and given not in words:
        raise ConfigurationError.unknown(what, given, words)
    return given


def _from_one(what: str, given: object, which: str = "") -> int:
    if type(given) is not int or given < 1:
        raise ConfigurationError(f"{what} must be at least 1{which}, not {given!r}")
    return given


def page(records: list[JobRecord], limit: int, *, now: float, skew: float) -> Page:
    """Build a page from what was read: one record more than the page holds shows that there is more."""
    found = Page(job_view(record, now=now, skew=skew) for record in records[:limit])
    if len(records) > limit:
        found.next_cursor = records[limit - 1].row.n
    return found


def _view(row: JobRow, now: float) -> str:
    return view(row.state, attempts=row.attempts, due_later=row.due_at > now, parked=row.parked_on is not None)


def shown_payload(handler: str, text: str) -> Any:
    """Return the payload with the secrets in a request's headers hidden. They are stored, hashed and sent as given."""
    payload = _read(text)
    headers = payload.get("headers") if handler == HTTP and isinstance(payload, dict) else None
    if not isinstance(headers, dict):
        return payload
    return payload | {"headers": {name: HIDDEN if is_secret_name(name) else value for name, value in headers.items()}}


def _progress(said: KeptProgress | None, moment: Moment) -> JobProgress | None:
    if said is None:
        return None
    return JobProgress(fraction=said.fraction, note=said.note, at=moment(said.at), attempt=said.attempt)


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
        advice=reason(line.reason_code or "", Class(line.cls or Class.UNKNOWN)).advice,
    )


def _last_failure(row: JobRow, failures: list[Failure]) -> Failure | None:
    """Return what is in the way now: a letter's failure, else the last attempt's; None once the job is done."""
    if row.state in FINAL:
        return None
    if row.failure is not None and row.state in LETTERS:
        return msgspec.json.decode(row.failure, type=Failure)
    return failures[-1] if failures else None


def _shown(failure: Failure | None, history: list[Attempt], kept: StoredTraceback | None) -> FailureView | None:
    """Show a failure with the traceback of its attempt; the traceback of an earlier attempt does not belong to it."""
    if failure is None:
        return None
    last = next((line for line in reversed(history) if line.cls is not None), None)
    its_own = kept is not None and last is not None and last.worker is not None and last.attempt == kept.attempt
    return FailureView.of(failure, kept.text if kept and its_own else None)


def _first_failure(failures: list[Failure], failure: Failure | None) -> Failure | None:
    """Return the first failure, with the advice for what is in the way now."""
    if not failures or failure is None:
        return failures[0] if failures else failure
    return msgspec.structs.replace(failures[0], advice=failure.advice)


def _triage(row: JobRow, moment: Moment) -> Triage | None:
    if row.triage is None:
        return None
    stored = msgspec.json.decode(row.triage, type=Triage)
    approval = stored.approval if stored.replay_status == "approval_pending" else None
    return msgspec.structs.replace(stored, replay_at=moment(stored.replay_at), approval=approval)  # type: ignore[arg-type]


def _max_attempts(row: JobRow) -> int:
    """Return the limit that a claim stamped, or the one that the next claim will stamp."""
    if row.max_attempts is not None:
        return row.max_attempts
    return row.round_start + (row.budget or stored_rules(row.queue, row.rules).attempts)


EARLIER_STEP = "waits for an earlier step of its workflow"
"""What a step waits for, if no more is known or may be said."""
MOST_NAMED = 3
"""How many steps a sentence names."""


class Blocker(msgspec.Struct, frozen=True):
    """A step that other steps wait for: its state, and why it stopped, if it did."""

    step: str
    state: State
    failure: Failure | None = None


def waits_for(blockers: Sequence[Blocker]) -> str:
    """Say what a waiting step waits for: the steps that stopped, if any did, as nothing moves before they do."""
    stopped = [each for each in blockers if each.state in LETTERS]
    if len(stopped) == 1:
        return f"waits for step {_stopped(stopped[0])}"
    if stopped:
        return f"waits for steps that stopped: {_named([_stopped(each) for each in stopped])}"
    if not blockers:
        return EARLIER_STEP
    steps = "step" if len(blockers) == 1 else "steps"
    return f"waits for {steps} {_named([each.step for each in blockers])}"


def _stopped(blocker: Blocker) -> str:
    """Say how a step stopped, without its words: a reader of the waiting step may not reach the other's queue."""
    how = "died" if blocker.state == State.DEAD else "is held"
    failure = blocker.failure
    return f"{blocker.step}, which {how}" if failure is None else f"{blocker.step}, which {how}: {failure.reason_code}"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and more"


def cancelled_by(job: JobView) -> str | None:
    """Say who cancelled a job, and why, from its history; None if that is not known, or it was not cancelled."""
    last = job.history[-1] if job.state == State.CANCELLED and job.history else None
    if last is None or last.by is None:
        return None
    return f"by {last.by} ({last.reason})" if last.reason else f"by {last.by}"
