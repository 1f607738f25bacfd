"""Jobs laid out for reading: many as a list, one as a sheet with its failure and history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from standfast.cli.terminal import Cell, Table, as_text
from standfast.cli.words import ago, span, when
from standfast.failure import Failure
from standfast.job import Attempt, JobView
from standfast.lifecycle import State

COLOURS = {
    "queued": "cyan",
    "scheduled": "blue",
    "waiting": "blue",
    "retry_pending": "yellow",
    "parked": "yellow",
    "running": "bold green",
    "completed": "green",
    "cancelled": "dim",
    "held": "bold magenta",
    "dead": "bold red",
}
LONGEST_NOTE = 80
LONGEST_VALUE = 2000


def listing(jobs: Sequence[JobView], now: datetime) -> Table:
    """Lay out many jobs, one a row."""
    rows = [
        (
            job.id,
            job.queue,
            _state(job),
            f"{job.attempts}/{job.max_attempts}",
            ago(job.created_at, now),
            _note(job, now),
        )
        for job in jobs
    ]
    return Table(rows, ("id", "queue", "state", "attempts", "age", "note"))


def sheet(job: JobView, now: datetime) -> list[Table]:
    """Lay out one job, and what stopped it."""
    tables = [Table(list(_facts(job, now)))]
    if job.failure is not None:
        tables.append(Table(list(_failure(job, job.failure)), title="Failure"))
    if job.history:
        columns = ("attempt", "when", "class", "landed", "reason", "repeat", "error")
        tables.append(Table([_line(line, now) for line in job.history], columns, title="History"))
    return tables


def _state(job: JobView) -> Cell:
    return Cell(job.view, COLOURS.get(job.view, ""))


def _note(job: JobView, now: datetime) -> str:
    """Say what one would ask next about a job in this state."""
    parts = []
    if job.view in {"scheduled", "retry_pending"}:
        parts.append(f"due {ago(job.due_at, now)}")
    if job.view == "running":
        parts.append(f"on {job.worker}")
    if job.failure is not None:
        parts.append(f"{job.failure.reason_code}: {job.failure.message}")
    if job.warning:
        parts.append(job.warning)
    return _cut("; ".join(parts), LONGEST_NOTE)


def _facts(job: JobView, now: datetime) -> Iterator[tuple[str, str | Cell]]:
    yield "id", job.id
    yield "queue", job.queue if job.handler == job.queue else f"{job.queue} (handler {job.handler})"
    yield "state", _state(job)
    yield "attempts", f"{job.attempts} of {job.max_attempts}"
    for name in ("created_at", "due_at", "claimed_at", "finished_at", "expires_at"):
        moment = getattr(job, name)
        if moment is not None and (name != "due_at" or job.state == State.QUEUED):
            yield name.removesuffix("_at"), when(moment, now)
    for name in ("worker", "priority", "idempotency_key", "session", "requester", "risk", "labels", "superseded_by"):
        value = getattr(job, name)
        if value:
            yield name.replace("_", " "), as_text(value)
    yield "payload", _cut(as_text(job.payload), LONGEST_VALUE)
    if job.result is not None:
        yield "result", _cut(as_text(job.result), LONGEST_VALUE)
    if job.warning:
        yield "warning", Cell(job.warning, "yellow")


def _failure(job: JobView, failure: Failure) -> Iterator[tuple[str, str | Cell]]:
    yield "reason", Cell(failure.reason_code, "bold red" if job.view in {"dead", "held"} else "yellow")
    yield "class", f"{failure.cls}, landed: {failure.landed}"
    if failure.error_kind:
        yield "error", failure.error_kind
    if failure.message:
        yield "message", _cut(failure.message, LONGEST_VALUE)
    if failure.advice:
        yield "advice", Cell(failure.advice, "bold")
    if job.triage is not None:
        yield "triage", f"{job.triage.action} ({job.triage.replay_status})"


def _line(line: Attempt, now: datetime) -> tuple[str, ...]:
    words = (line.cls, line.landed, line.reason_code)
    repeat = "" if line.delay is None else f"after {span(line.delay)}"
    if line.possible_duplicate:
        repeat += ", possible duplicate"
    error = ": ".join(part for part in (line.error_kind, line.message) if part)
    return (str(line.attempt), ago(line.at, now), *(word or "" for word in words), repeat, _cut(error, LONGEST_VALUE))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters; --json gives all)"
