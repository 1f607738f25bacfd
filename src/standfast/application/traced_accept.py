"""Accepts jobs inside spans if tracing is on: each job carries the `traceparent` of the caller that enqueued it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.application.reception import Enqueue, Reception
from standfast.job import Details, NewJob, Receipt
from standfast.spine.claim_requests import Accepted
from standfast.telemetry import BATCH, HANDLER, JOB, OUTCOME, QUEUE, EnqueueSpan, Tracing
from standfast.wings.relay.transactions import Transactions

_details = msgspec.json.Decoder(Details).decode
_text = msgspec.json.Encoder().encode


def about(jobs: Sequence[NewJob]) -> tuple[str, dict[str, str | int]]:
    """Return the queue of the enqueued jobs, and the attributes of their span."""
    if not jobs:
        return "nothing", {BATCH: 0}
    first = jobs[0]
    alone: dict[str, str | int] = {JOB: first.id} if len(jobs) == 1 else {BATCH: len(jobs)}
    return first.queue, {QUEUE: first.queue, HANDLER: first.handler, **alone}


def stamped(job: NewJob, span: EnqueueSpan) -> NewJob:
    """Return the job with the span it is enqueued in."""
    details = msgspec.structs.replace(_details(job.details), trace=span.traceparent)
    return msgspec.structs.replace(job, details=_text(details).decode())


async def traced(tracing: Tracing | None, job: NewJob, store: Callable[[NewJob], Awaitable[Receipt]]) -> Receipt:
    """Store a job, inside a span if tracing is on."""
    if tracing is None:
        return await store(job)
    with tracing.enqueue_span(*about([job])) as span:
        return _name_job(span, await store(stamped(job, span)))


def _name_job(span: EnqueueSpan, receipt: Receipt) -> Receipt:
    """Name the stored job in the span: a duplicate has the id of the first one."""
    span.say({OUTCOME: receipt.outcome, **({} if receipt.id is None else {JOB: receipt.id})})
    return receipt


class TracedReception(Reception):
    """Accepts jobs, each call inside a span of its own."""

    def __init__(self, tracing: Tracing, *parts: Any) -> None:
        super().__init__(*parts)
        self._tracing = tracing

    async def accept(self, job: NewJob, enqueue: Enqueue | None = None) -> Receipt:
        """Accept one job."""
        with self._tracing.enqueue_span(*about([job])) as span:
            return _name_job(span, await super().accept(stamped(job, span), enqueue))

    async def accept_bulk(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Accept all of these jobs, or none."""
        with self._tracing.enqueue_span(*about(jobs)) as span:
            return await super().accept_bulk([stamped(job, span) for job in jobs])

    async def accept_each(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Accept each of these jobs that can be stored."""
        with self._tracing.enqueue_span(*about(jobs)) as span:
            return await super().accept_each([stamped(job, span) for job in jobs])


class TracedTransactions(Transactions):
    """Writes jobs inside callers' transactions, each call inside a span of its own."""

    def __init__(self, tracing: Tracing, *parts: Any) -> None:
        super().__init__(*parts)
        self._tracing = tracing

    async def enqueue(self, tx: object, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write all of these jobs, or none."""
        with self._tracing.enqueue_span(*about(jobs)) as span:
            return await super().enqueue(tx, [stamped(job, span) for job in jobs])
