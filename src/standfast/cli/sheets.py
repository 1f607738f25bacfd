"""The layout of jobs for reading: many as a list, one as a sheet with its failure and history."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from standfast.cli.terminal import Cell, Table, as_text, show, show_json
from standfast.cli.words import ago, now, when
from standfast.failure import Failure, Landed
from standfast.lifecycle import State
from standfast.spine.accept import DETAILS
from standfast.views import Attempt, FailureView, JobProgress, JobView
from standfast.wings.records.duplicates import duplicate_note, duplicate_sentence
from standfast.wings.records.figures import number, span
from standfast.wings.records.view import Page

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
SAID = (
    *("worker", "priority", "idempotency_key", "thread_key"),
    *(name for name in DETAILS if name in JobView.__struct_fields__),
    "superseded_by",
)
"""Facts that are shown only if they have a value."""
NOT_BEGUN = "consent_required"
"""The reason of a job that waits for consent: it was never tried, so nothing failed."""
BAR = 20
"""Characters in a progress bar."""
SAME_MOMENT = timedelta(seconds=1)
"""Times less than this apart count as one."""
LONGEST_NOTE = 80
LONGEST_VALUE = 2000
MANY_SKIPPED = 2000
"""A page that had to look through more jobs than this says how many."""


def listing(jobs: Sequence[JobView], now: datetime, *, letters: bool = False) -> Table:
    """Lay out many jobs, one per row; letters also show their triage status.

    There is a handler column if any handler's name differs from its queue's.
    """
    handlers = any(job.handler != job.queue for job in jobs)
    rows: list[tuple[str | Cell, ...]] = [
        (
            job.id,
            job.queue,
            *([job.handler if job.handler != job.queue else ""] if handlers else []),
            _state(job),
            *([job.triage.replay_status if job.triage else ""] if letters else []),
            f"{job.attempts}/{job.max_attempts}",
            ago(job.first_seen_at, now),
            _note(job, now),
        )
        for job in jobs
    ]
    triage, handler = ["triage"] if letters else [], ["handler"] if handlers else []
    return Table(rows, ("id", "queue", *handler, "state", *triage, "attempts", "age", "note"))


def sheet(job: JobView, now: datetime, longest: int = LONGEST_VALUE) -> list[Table]:
    """Lay out one job, and what stopped it; values longer than `longest` are cut."""
    tables = [Table(list(_facts(job, now, longest)))]
    if job.failure is not None:
        tables.append(Table(list(_failure(job, job.failure, longest)), title=_stopped_by(job)))
        if job.failure.traceback is not None:
            tables.append(Table([(each,) for each in job.failure.traceback.split("\n")], title="Traceback"))
    if job.effects:
        rows = [_effect(each, now, longest) for each in job.effects]
        tables.append(Table(rows, ("effect", "verdict", "when", "attempt", "receipt"), title="Effects"))
    if job.history:
        columns = ("attempt", "when", "class", "landed", "reason", "repeat", "error")
        tables.append(Table([_line(line, now, longest) for line in job.history], columns, title="History"))
    return tables


def letter(job: JobView, now: datetime, approval: str | None = None) -> list[Table]:
    """Lay out one letter in full, and what to do with it; `approval` is the one it waits for."""
    facts, *tables = sheet(job, now, longest=sys.maxsize)
    return [Table([*facts.rows, *_letter_facts(job)]), *tables, Table(list(_next_steps(job, approval)), title="Next")]


def _state(job: JobView) -> Cell:
    return Cell(job.view, COLOURS.get(job.view, ""))


def _note(job: JobView, now: datetime) -> str:
    """Say what a reader would ask next about a job in this state."""
    parts = []
    if job.view in {"scheduled", "retry_pending"}:
        parts.append(f"due {ago(job.due_at, now)}")
    if job.view == "parked":
        parts.append(f"waits for {job.parked_on}")
    if job.view == "running":
        parts.append(f"on {job.worker}")
    parts += filter(None, [duplicate_note(job)])
    if job.failure is not None:
        parts.append(_reason(job.failure))
    if job.warning:
        parts.append(job.warning)
    note = "; ".join(parts)
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…"


def _reason(failure: Failure) -> str:
    return ": ".join(part for part in (failure.reason_code, failure.summary) if part)


def _facts(job: JobView, now: datetime, longest: int) -> Iterator[tuple[str, str | Cell]]:
    yield "id", job.id
    yield "queue", job.queue if job.handler == job.queue else f"{job.queue} (handler {job.handler})"
    yield "state", _state(job)
    yield "attempts", f"{job.attempts} of {job.max_attempts}"
    if job.progress is not None and job.state != State.COMPLETED:
        yield "progress", progress_words(job.progress, now)
    if job.parked_on is not None:
        yield "waits for", Cell(job.parked_on, "yellow")
    yield from ((name, when(moment, now)) for name, moment in _origins(job))
    for name in ("due_at", "claimed_at", "finished_at", "expires_at"):
        moment = getattr(job, name)
        if moment is not None and (name != "due_at" or job.state == State.QUEUED):
            yield name.removesuffix("_at"), when(moment, now)
    for name in SAID:
        value = getattr(job, name)
        if value:
            yield name.replace("_", " "), as_text(value)
    yield "payload", _truncate(as_text(job.payload), longest)
    if job.result is not None:
        yield "result", _truncate(as_text(job.result), longest)
    if job.warning:
        yield "warning", Cell(job.warning, "yellow")
    if (may_repeat := duplicate_sentence(job.history, job.state)) is not None:
        yield "possible duplicate", Cell(may_repeat, "yellow")


def _origins(job: JobView) -> Iterator[tuple[str, datetime]]:
    """Yield when a job was created and, if different, when its work was first wanted and when it was last queued."""
    differ = abs(job.last_entered_at - job.first_seen_at) >= SAME_MOMENT
    if differ:
        yield "first seen", job.first_seen_at
    yield "created", job.created_at
    if differ:
        yield "last entered", job.last_entered_at


def _failure(job: JobView, failure: FailureView, longest: int) -> Iterator[tuple[str, str | Cell]]:
    yield "reason", Cell(failure.reason_code, "bold red" if job.view in {"dead", "held"} else "yellow")
    if failure.cause:
        yield "cause", failure.cause
    if failure.reason_code != NOT_BEGUN:
        yield "class", f"{failure.cls}, landed: {failure.landed}"
    if failure.error_kind:
        yield "error", failure.error_kind
    if failure.message:
        yield "message", _truncate(failure.message, longest)
    if failure.without_traceback is not None and failure.reason_code != NOT_BEGUN:
        yield "traceback", failure.without_traceback
    if failure.advice:
        yield "advice", Cell(failure.advice, "bold")
    if job.triage is not None:
        yield "triage", f"{job.triage.action} ({job.triage.replay_status}), by rule {job.triage.rule}"
        if job.triage.note:
            yield "note", job.triage.note


def progress_words(progress: JobProgress, now: datetime) -> str:
    """Say how far an attempt is, with a bar."""
    done = round(progress["fraction"] * BAR)
    note = f" {progress['note']}" if progress["note"] else ""
    bar = "█" * done + "░" * (BAR - done)
    return f"{bar} {progress['fraction']:.0%}{note} (attempt {progress['attempt']}, {ago(progress['at'], now)})"


def _letter_facts(job: JobView) -> Iterator[tuple[str, str]]:
    yield "payload sha256", job.payload_sha256
    for name in ("workflow", "coalesced", "fingerprint", "replays", "policy_snapshot"):
        value = getattr(job, name)
        if value:
            yield name.replace("_", " "), as_text(value)
    for name in ("owner", "approver_group"):
        value = job.triage and getattr(job.triage, name)
        if value:
            yield name.replace("_", " "), value
    first = job.first_failure
    if first is not None and job.failure is not None and first.reason_code != job.failure.reason_code:
        yield "first failure", _reason(first)


def _next_steps(job: JobView, approval: str | None) -> Iterator[tuple[str, str]]:
    if approval is not None:
        yield "let it go back to work", f"standfast approvals approve {approval}"
        yield "leave it dead", f"standfast approvals deny {approval} --reason …"
    else:
        denied = job.triage is not None and job.triage.replay_status == "denied"
        yield "ask again, it was denied" if denied else "put it back to work", f"standfast dead replay {job.id}"
    if job.failure is not None and job.failure.landed == Landed.MAYBE:
        yield "end it, if its effect is there", f"standfast dead resolve [app:sf] {job.id} --reason …"
        yield "end it unchecked: you vouch for it", f"standfast dead resolve {job.id} --reason … --result JSON"


def _effect(effect: dict[str, Any], now: datetime, longest: int) -> tuple[str, ...]:
    attempt = effect.get("attempt")
    receipt = "" if effect["receipt"] is None else _truncate(as_text(effect["receipt"]), longest)
    return effect["name"], _verdict(effect), ago(effect["at"], now), "" if attempt is None else str(attempt), receipt


def _stopped_by(job: JobView) -> str:
    """Return the heading for what stops a job: a missing consent is no failure."""
    consent = job.state == State.HELD and job.failure is not None and job.failure.reason_code == NOT_BEGUN
    return "Waits for consent" if consent else "Failure"


def _verdict(effect: dict[str, Any]) -> str:
    """Return an effect's verdict, marked if it came from a worker that had already lost the job."""
    return f"{effect['verdict']}, late" if effect.get("late") else str(effect["verdict"])


def _line(line: Attempt, now: datetime, longest: int) -> tuple[str, ...]:
    waits = line.reason_code == NOT_BEGUN
    words = (not waits and line.cls, not waits and line.landed, line.reason_code)
    after = None if line.delay is None else f"after {span(line.delay)}"
    more = line.left_out and f"{line.left_out:,} more like it"
    repeat = ", ".join(part for part in (after, line.possible_duplicate and "possible duplicate", more) if part)
    who = line.by and f"by {line.by}"
    text = ": ".join(part for part in (line.error_kind, line.message, who, line.reason) if part)
    return (
        str(line.attempt) if line.begun and not waits else "not begun",
        ago(line.at, now),
        *(word or "" for word in words),
        repeat,
        _truncate(text, longest),
    )


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters; --json gives all)"


def show_page(page: Page, *, as_json: bool, letters: bool = False) -> None:
    """Write a page of jobs; stderr says how to get the next one."""
    if as_json:
        scanned = {} if page.scanned is None else {"scanned": page.scanned}
        show_json({"items": page, "next_cursor": page.next_cursor, **scanned})
        return
    show(listing(page, now(), letters=letters))
    if page.next_cursor is not None:
        seen = page.scanned or 0
        looked = f" ({number(seen)} jobs were looked through)" if seen > MANY_SKIPPED else ""
        click.echo(f"there is more: add --cursor {page.next_cursor}{looked}", err=True)
