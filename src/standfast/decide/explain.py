"""Why is this job not running? One sentence with the evidence, from facts alone."""

from __future__ import annotations

import msgspec

from standfast.failure import Failure
from standfast.lifecycle import State


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a job and its queue at one moment. Ages are seconds."""

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
    """For how long its worker was not heard of, if that is longer than a live one would be silent."""
    lapses_in: float = 0.0
    any_worker: bool = True
    blocked_by: tuple[str, ...] = ()
    """The handlers, as queue/handler, that lately blocked their worker's event loop."""
    parked_on: str | None = None
    failure: Failure | None = None
    warning: str | None = None
    superseded_by: str | None = None
    paused: bool = False
    handler_known: bool = True
    live_workers: int = 0
    ahead: int = 0
    """Due jobs of its queue, this one included; counting stops at a bound."""
    running: int = 0


def explain(job: Circumstances) -> str:
    """Say in one sentence where a job stands, why, and what to do next."""
    match job.state:
        case State.QUEUED:
            return _queued(job)
        case State.RUNNING if job.silent_for is not None:
            return _abandoned(job, job.silent_for)
        case State.RUNNING:
            attempt = f"attempt {job.attempts} of {job.max_attempts}"
            return f"It has been running for {_span(job.age)} on {job.worker}, {attempt}.{_held_up(job)}"
        case State.COMPLETED:
            return f"It completed {_span(job.age)} ago" + (f", with a warning: {job.warning}." if job.warning else ".")
        case State.CANCELLED if job.superseded_by:
            return f"It was cancelled {_span(job.age)} ago: job {job.superseded_by} of the same thread took its place."
        case State.CANCELLED:
            return f"It was cancelled {_span(job.age)} ago" + (f": {job.warning}." if job.warning else ".")
        case State.WAITING:
            return "It waits for an earlier step of its workflow."
        case _:
            return _letter(job)


def _abandoned(job: Circumstances, silent_for: float) -> str:
    lease = f"Its lease ends in {_span(job.lapses_in)}" if job.lapses_in > 0 else "Its lease is over"
    alive = "." if job.any_worker else ", and none is alive: start one with `standfast worker app:sf`."
    return (
        f"Attempt {job.attempts} of {job.max_attempts} began {_span(job.age)} ago on {job.worker}, which has been "
        f"silent for {_span(silent_for)} and may be gone. {lease}; after that any live worker takes the job back{alive}"
    )


def _letter(job: Circumstances) -> str:
    failure = job.failure
    if failure is None:
        return f"It is {job.state} since {_span(job.age)}."
    told = f" ({failure.told})" if failure.told else ""
    landed = " The effect may exist." if failure.landed == "maybe" else ""
    return (
        f"It is {job.state} since {_span(job.age)} after {_count(job.attempts, 'attempt')}: "
        f"{failure.reason_code}{told}.{landed} {failure.advice}"
    )


def _queued(job: Circumstances) -> str:
    if job.parked_on:
        return f"It waits behind {job.parked_on}, since {_span(job.waited)}."
    if job.due_in > 0:
        return _later(job)
    if job.paused:
        return f"Queue {job.queue} is paused; resume it with `standfast queue resume {job.queue}`."
    if not job.handler_known:
        handler = f"handler {job.handler!r} for queue {job.queue}"
        return f"No process has declared a {handler}; deploy it, or correct the name."
    if not job.live_workers:
        return f"No live worker serves queue {job.queue}; start one with `standfast worker app:sf`."
    due = f"{_count(job.ahead, 'job')} of queue {job.queue} {'is' if job.ahead == 1 else 'are'} due"
    running = f"{job.running} {'is' if job.running == 1 else 'are'} running on {_count(job.live_workers, 'worker')}"
    return f"It has been due for {_span(job.waited)}; {due}, {running}.{_held_up(job)}"


def _held_up(job: Circumstances) -> str:
    """Say which handlers kept a worker from everything else: what waits meanwhile is not to blame."""
    return f" The event loop of a worker was blocked just now by {', '.join(job.blocked_by)}." if job.blocked_by else ""


def _later(job: Circumstances) -> str:
    if job.failure is not None and job.attempts:
        return (
            f"Attempt {job.attempts} of {job.max_attempts} failed ({job.failure.reason_code}); "
            f"the next one is due in {_span(job.due_in)}."
        )
    return f"It is scheduled, and due in {_span(job.due_in)}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0.0, seconds):.1f} s"
