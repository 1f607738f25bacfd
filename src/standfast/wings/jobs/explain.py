"""Why is this job not running? One sentence with the evidence, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from standfast.failure import Failure
from standfast.failure.letter_advice import LOOK_FIRST
from standfast.lifecycle import State
from standfast.views import Triage
from standfast.wings.effects.outcomes import LOOK_FAILED, RECOVERED
from standfast.wings.limits import holds
from standfast.wings.limits import words as gates
from standfast.wings.limits.words import Closing, Row
from standfast.wings.records.figures import count_of, span
from standfast.wings.records.view import EARLIER_STEP

MOST_NAMED = 5
"""The most effects and steps that a sentence names."""


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a job and its queue at one moment. Ages are seconds."""

    state: State
    queue: str
    handler: str
    attempts: int
    max_attempts: int
    due_in: float
    waited: float
    age: float
    worker: str | None = None
    silent_for: float | None = None
    """How many seconds its worker has been silent, if that is longer than a live worker would be."""
    overdue_for: float | None = None
    """How many seconds ago its worker noted that it is past its timeout and goes on."""
    lapses_in: float = 0.0
    any_worker: bool = True
    blocked_by: tuple[str, ...] = ()
    """The handlers, as queue/handler, that lately blocked their worker's event loop."""
    parked_on: str | None = None
    failure: Failure | None = None
    warning: str | None = None
    found: tuple[str, ...] = ()
    """Its effects and steps that were found done."""
    may_repeat: str | None = None
    """The sentence about an earlier attempt that may have had its effect."""
    called: tuple[tuple[str, int], ...] = ()
    """The effects that were called with several arguments, and with how many."""
    superseded_by: str | None = None
    cancelled_by: str | None = None
    """Who cancelled it and why, in words; None if that is not known, or it was not cancelled."""
    waits_for: str | None = None
    """What a step of a workflow waits for."""
    triage: Triage | None = None
    paused: bool = False
    paused_by: str | None = None
    """Who paused it, when and why, in words; None if that is not known."""
    handler_known: bool = True
    live_workers: int = 0
    """Live workers that serve its queue."""
    without_handler: bool = False
    """Whether none of these workers has its handler: the code with it is not deployed, or no longer."""
    ahead: int = 0
    """Due jobs of its queue, including this one."""
    running: int = 0
    deferrals: int = 0
    not_started: str | None = None
    """Why no process could be started for it, if it was deferred for that."""
    refused_by: str | None = None
    """The destination that last refused it for now, and said when to come back."""
    gates: tuple[Row, ...] = ()
    """The gates before it: the one it is parked at, and those that all jobs of its queue pass."""
    now: float = 0.0
    skew: float = 0.0
    """What to add to `now` for wall time."""


def explain(job: Circumstances) -> str:
    """Say in one sentence where a job stands, why, and what to do next; in more sentences what else matters."""
    may_repeat = f" {job.may_repeat}" if job.may_repeat else ""
    return f"{_stands(job)}{may_repeat}{_several_calls(job)}"


def _several_calls(job: Circumstances) -> str:
    """Say which effects were called with several arguments: each of these calls has an entry of its own."""
    if not job.called:
        return ""
    calls = ", ".join(f"{name!r} with {number} different arguments" for name, number in job.called[:MOST_NAMED])
    return f" It called {calls}: each is kept and repeated on its own."


def _stands(job: Circumstances) -> str:
    match job.state:
        case State.QUEUED:
            return f"{_queued(job)}{_suspect(job)}"
        case State.RUNNING if job.silent_for is not None:
            return _abandoned(job, job.silent_for)
        case State.RUNNING:
            attempt = f"attempt {job.attempts} of {job.max_attempts}"
            return f"It has been running for {span(job.age)} on {job.worker}, {attempt}.{_overdue(job)}{_held_up(job)}"
        case State.COMPLETED if job.warning == RECOVERED and job.found:
            return (
                f"It completed {span(job.age)} ago: how its last attempt ended was unknown, but its effect was found "
                f"there ({', '.join(job.found)}), and nothing was run again ({RECOVERED})."
            )
        case State.COMPLETED:
            return f"It completed {span(job.age)} ago" + (f", with a warning: {job.warning}." if job.warning else ".")
        case State.CANCELLED if job.superseded_by:
            return f"It was cancelled {span(job.age)} ago: job {job.superseded_by} of the same thread took its place."
        case State.CANCELLED:
            by = f" {job.cancelled_by}" if job.cancelled_by else ""
            return f"It was cancelled {span(job.age)} ago{by}" + (f": {job.warning}." if job.warning else ".")
        case State.WAITING:
            return f"It {job.waits_for or EARLIER_STEP}."
        case _:
            return _letter(job)


def _overdue(job: Circumstances) -> str:
    """Say that an attempt goes on past its timeout, which does not start another attempt."""
    if job.overdue_for is None:
        return ""
    return f" Its time has been over for at least {span(job.overdue_for)}; no repeat starts beside it."


def _abandoned(job: Circumstances, silent_for: float) -> str:
    lease = f"Its lease ends in {span(job.lapses_in)}" if job.lapses_in > 0 else "Its lease is over"
    alive = "." if job.any_worker else ", and none is alive: start one with `standfast worker app:sf`."
    return (
        f"Attempt {job.attempts} of {job.max_attempts} began {span(job.age)} ago on {job.worker}, which has been "
        f"silent for {span(silent_for)} and may be gone. {lease}; after that any live worker takes the job back{alive}"
    )


def _letter(job: Circumstances) -> str:
    failure = job.failure
    if failure is None:
        return f"It has been {job.state} for {span(job.age)}."
    detail = f" ({failure.summary})" if failure.summary else ""
    if job.state == State.HELD and job.triage is not None and job.triage.replay_status == "approval_pending":
        return f"{_waits_for_an_answer(job, job.triage)} It had stopped with {_why(failure)}{detail}."
    if job.state == State.HELD and failure.reason_code == "consent_required":
        waited = f"It has waited for its session's consent for {span(job.age)}{detail}"
        return f"{waited}; it was not begun. {failure.advice}"
    may_exist = failure.landed == "maybe" and LOOK_FIRST not in failure.advice
    landed = " The effect may exist." if may_exist else ""
    passed_over = f" {job.triage.note.capitalize()}." if job.triage is not None and job.triage.note else ""
    return (
        f"It has been {job.state} for {span(job.age)}, after {count_of(job.attempts, 'attempt')}: "
        f"{_why(failure)}{detail}.{landed}{passed_over} {failure.advice}"
    )


def _why(failure: Failure) -> str:
    return f"{failure.reason_code}, caused by {failure.cause}" if failure.cause else failure.reason_code


def _waits_for_an_answer(job: Circumstances, triage: Triage) -> str:
    who = f" from a member of {triage.approver_group}" if triage.approver_group else ""
    answer = "see `standfast approvals list`, then answer with `standfast approvals approve` or `deny`."
    return f"Its replay has waited for an approval{who} for {span(job.age)}; {answer}"


def _queued(job: Circumstances) -> str:
    if job.parked_on:
        at = next((_gate_text(row, job.now, job.skew) for row in job.gates if row.key == job.parked_on), None)
        return f"{at or f'It has waited behind {job.parked_on} for {span(job.waited)}.'}{_deferred(job)}"
    if job.due_in > 0:
        return _later(job)
    if job.paused:
        paused = f"is paused, {job.paused_by}" if job.paused_by else "is paused"
        return f"Queue {job.queue} {paused}; resume it with `standfast queue resume {job.queue}`."
    if not job.handler_known:
        handler = f"handler {job.handler!r} for queue {job.queue}"
        return f"No process has declared a {handler}; deploy it, or correct the name."
    if not job.live_workers:
        return f"No live worker serves queue {job.queue}; start one with `standfast worker app:sf`."
    if job.without_handler:
        serve = f"{count_of(job.live_workers, 'live worker')} {'serves' if job.live_workers == 1 else 'serve'}"
        return (
            f"{serve} queue {job.queue} without handler {job.handler!r}; deploy the code that declares it, or start a "
            "worker that has it."
        )
    shut = next((said for row in job.gates if (said := _shut(row, job.now, job.skew))), None)
    if shut is not None:
        return f"{shut}{_deferred(job)}"
    due = f"{count_of(job.ahead, 'job')} of queue {job.queue} {'is' if job.ahead == 1 else 'are'} due"
    running = f"{job.running} {'is' if job.running == 1 else 'are'} running on {count_of(job.live_workers, 'worker')}"
    return f"It has been due for {span(job.waited)}; {due}, {running}.{_held_up(job)}"


def _suspect(job: Circumstances) -> str:
    """Say what happens next to a job whose worker died while it ran."""
    lost = job.failure is not None and job.failure.reason_code == "worker_lost"
    return " It ran when its worker died; next it runs alone." if lost else ""


def _shut(row: Row, now: float, skew: float) -> str | None:
    """Say what a gate waits for, if it is shut and is a gate of the whole queue or of the job's destination."""
    full = row.kind == "limit" and row.used >= (row.capacity or 0)
    empty = row.kind == "rate" and gates.meter(row).tokens(now) == 0
    shut = full or empty or row.kind == "gate" or holds.is_shut(row, now)
    return _gate_text(row, now, skew) if shut else None


def _gate_text(row: Row, now: float, skew: float = 0.0) -> str | None:
    """Say what a gate waits for."""
    match row.kind:
        case "limit":
            return f"It waits for a place of {row.key}: {row.used} of {row.capacity} are taken."
        case "rate":
            wait = gates.meter(row).next_at(now) - now
            return f"It waits for {row.key}, which lets the next one start in {span(wait)}."
        case "gate":
            closing = msgspec.json.decode(row.detail or "{}", type=Closing)
            closed = f"Its queue's gate has been closed for {span(now - closing.since)}: {closing.why}."
            return f"{closed} It is asked again by itself."
        case "breaker":
            return _circuit(row, now)
        case "probe":
            return _disabled(row, now)
        case holds.KIND:
            return postponed(row, now, skew)
        case _:
            return None


def _circuit(row: Row, now: float) -> str:
    found, name = gates.circuit(row), row.key.removeprefix("breaker:")
    if found.state == "recovering":
        return f"It waits for its turn: {name} answers again, and jobs follow little by little."
    if found.state == "probing":
        following = "one job is on its way to see whether it is back"
    else:
        following = f"the next try is in {span((row.opens_at or now) - now)}"
    return (
        f"It waits for {name}, which failed {count_of(row.used, 'time')} in a row: its breaker has been open for "
        f"{span(now - found.since)}, and {following}. No attempt is spent."
    )


def postponed(row: Row, now: float, skew: float) -> str:
    """Say until when a destination makes its callers wait."""
    name, until = holds.destination_of(row.key), holds.read(row).until
    if until <= now:
        return f"It waits for its turn: {name} asked to wait until {_clock(until + skew)}, and jobs follow in batches."
    when = f"{_clock(until + skew)}, which is in {span(until - now)}"
    return f"{name} asked to wait until {when}. No attempt is spent."


def _clock(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S UTC")


def _disabled(row: Row, now: float) -> str:
    found, handler = gates.disabled(row), row.key.split(":", 2)[2]
    return (
        f"Its handler {handler!r} has been disabled for {span(now - found.since)}: what it requires says no "
        f"({found.why}). That is asked again by itself, and no attempt is spent; `retry` calls it all the same."
    )


def _deferred(job: Circumstances) -> str:
    return f" It was deferred {count_of(job.deferrals, 'time')} so far." if job.deferrals > 1 else ""


def _held_up(job: Circumstances) -> str:
    """Say which handlers kept a worker from everything else: the jobs that wait meanwhile are not to blame."""
    return f" The event loop of a worker was blocked just now by {', '.join(job.blocked_by)}." if job.blocked_by else ""


def _later(job: Circumstances) -> str:
    if job.not_started is not None:
        return (
            f"No process could be started for it ({job.not_started}); the next try is in {span(job.due_in)}, and no "
            f"attempt is spent.{_deferred(job)}"
        )
    if job.failure is not None and job.refused_by is not None:
        until = f"{_clock(job.now + job.due_in + job.skew)}, which is in {span(job.due_in)}"
        refusal = f"{job.refused_by} refused it for now ({job.failure.reason_code}) and asked to wait until {until}"
        return f"{refusal}. No attempt was spent.{_deferred(job)}"
    if job.failure is not None and job.failure.reason_code == LOOK_FAILED:
        return (
            f"Whether its effect is there could not be looked up ({job.failure.message}); the next look is in "
            f"{span(job.due_in)}, and no attempt is spent.{_deferred(job)}"
        )
    if job.failure is not None and job.attempts:
        done = f" Done already, and not repeated: {', '.join(job.found[:MOST_NAMED])}." if job.found else ""
        return (
            f"Attempt {job.attempts} of {job.max_attempts} failed ({job.failure.reason_code}); "
            f"the next one is due in {span(job.due_in)}.{done}"
        )
    return f"It is scheduled, and due in {span(job.due_in)}."
