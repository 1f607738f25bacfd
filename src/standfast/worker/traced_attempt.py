"""Puts attempts inside spans if tracing is on: from before the handler to the decision about the end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from standfast.application.traced_accept import stamped
from standfast.job import Claim
from standfast.lifecycle import State, Transition
from standfast.outcome import Outcome
from standfast.spine.run import Running
from standfast.telemetry import (
    ATTEMPT,
    BATCH,
    CLASS,
    HANDLER,
    JOB,
    LANDED,
    MAX_ATTEMPTS,
    OUTCOME,
    QUEUE,
    REASON,
    WORKER,
    Tracing,
)
from standfast.wings.schedules.scripts import TickDecision

Run = Callable[[Running], Coroutine[Any, Any, Outcome]]
Tick = Callable[[Sequence[TickDecision]], Coroutine[Any, Any, Sequence[bool]]]
Whole = Callable[[Running], Coroutine[Any, Any, Transition]]


class Spans:
    """Puts spans around attempts."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def around(self, attempt: Whole) -> Whole:
        """Return the whole attempt with a span around it; the span's outcome is what was decided about the end."""

        async def traced(running: Running) -> Transition:
            claim = running.claim
            span = running.span = self._tracing.attempt(claim.queue, claim.details.trace, _about(claim))
            try:
                end = await attempt(running)
                span.set_attributes(_outcome(end))
                failure = end.attempt_failure
                if failure is not None:
                    self._tracing.failed(span, failure.error_kind or failure.reason_code)
            finally:
                self._tracing.end(span)
            return end

        return traced

    def run_in_span(self, run: Run) -> Run:
        """Return the handler's run inside the attempt's span: its calls and log lines become part of that trace."""

        async def traced(running: Running) -> Outcome:
            with self._tracing.use_span(running.span):
                return await run(running)

        return traced


class Ticks:
    """Puts a span around what schedules enqueue: the ticks of one look share a trace of their own."""

    def __init__(self, tracing: Tracing, tick: Tick) -> None:
        self._tracing = tracing
        self._tick = tick

    async def tick(self, decided: Sequence[TickDecision]) -> Sequence[bool]:
        """Enqueue the jobs of the decided ticks; those that another worker enqueued meanwhile do not count."""
        number = sum(len(each.runs) for each in decided)
        if not number:
            return await self._tick(decided)
        with self._tracing.enqueue_span("schedules", {BATCH: number}, alone=True) as span:
            carried = [replace(each, runs=tuple((at, stamped(job, span)) for at, job in each.runs)) for each in decided]
            went = await self._tick(carried)
            span.say({OUTCOME: "accepted" if any(went) else "elsewhere"})
            return went


def _about(claim: Claim) -> dict[str, str | int]:
    return {
        QUEUE: claim.queue,
        JOB: claim.id,
        HANDLER: claim.handler,
        ATTEMPT: claim.attempts,
        MAX_ATTEMPTS: claim.max_attempts,
        WORKER: claim.worker,
    }


def _outcome(end: Transition) -> dict[str, str | int]:
    """Return the attributes of an end: the state it leads to, or how the job came back into the queue."""
    outcome = {OUTCOME: str(end.move if end.target == State.QUEUED else end.target)}
    failure = end.attempt_failure
    if failure is None:
        return {**outcome}
    return {**outcome, REASON: failure.reason_code, CLASS: str(failure.cls), LANDED: str(failure.landed)}
