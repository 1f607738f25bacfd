"""OpenTelemetry traces of each enqueue and each attempt. While tracing is off, OpenTelemetry is not imported.

A job carries the `traceparent` of the span it was enqueued in. An attempt is the root of a trace of its own, linked to
that span: a job may run hours later, and again after a replay.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError
from standfast.redact import redacted_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

log = logging.getLogger("standfast.telemetry")

# OpenTelemetry's names for messaging are not stable, so the names in use are written down here.
SYSTEM = "messaging.system"
QUEUE = "messaging.destination.name"
OPERATION = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
JOB = "messaging.message.id"
BATCH = "messaging.batch.message_count"
ERROR = "error.type"
HANDLER = "standfast.handler"
ATTEMPT = "standfast.attempt"
MAX_ATTEMPTS = "standfast.max_attempts"
WORKER = "standfast.worker"
OUTCOME = "standfast.outcome"
REASON = "standfast.reason_code"
CLASS = "standfast.class"
LANDED = "standfast.landed"
WORKFLOW = "standfast.workflow"

MISSING = "STANDFAST_OTEL is on and needs an extra: pip install 'standfast[otel]'"
LONGEST_TRACE = 8000
"""The most characters of a traceback that a span carries."""

_IDS = r"(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
_TRACEPARENT = re.compile(rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(?:-[ -~]*)?")
_current: ContextVar[str | None] = ContextVar("standfast_traceparent", default=None)

Attributes = Mapping[str, str | int]


def current() -> str | None:
    """Return the `traceparent` of the attempt that this code runs in, to pass on; None while tracing is off."""
    return _current.get()


def trace_id(traceparent: str) -> str:
    """Return the part of a `traceparent` that names the whole trace."""
    return traceparent[3:35]


def read_traceparent(traceparent: str) -> str | None:
    """Read a `traceparent` from outside; None if it does not fit the grammar of W3C Trace Context.

    Fields that a later version adds are dropped.
    """
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    return "-".join(("00", *(part for part in found.groups() if part is not None)))


def tracing(*, on: bool) -> Tracing | None:
    """Return what makes spans, or None while tracing is off."""
    if not on:
        return None
    try:
        return Tracing()
    except ModuleNotFoundError as error:
        raise ConfigurationError(MISSING) from error


class Tracing:
    """Makes spans with the provider that the process has set; without one they only pass incoming traces on."""

    def __init__(self) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - an extra, needed only for tracing

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("standfast")

    @contextmanager
    def enqueue_span(self, what: str, attributes: Attributes, *, alone: bool = False) -> Iterator[EnqueueSpan]:
        """Enqueue inside a span, a child of the current one unless `alone`. Errors are recorded and raised again."""
        all_attributes = {SYSTEM: "standfast", OPERATION: "enqueue", OPERATION_TYPE: "send", **attributes}
        parent, kind = self._context.Context() if alone else None, self._trace.SpanKind.PRODUCER
        span = self._begun(f"enqueue {what}", parent, kind=kind, attributes=all_attributes)
        with ExitStack() as ending:
            ending.callback(self.end, span)
            ending.push(partial(self._record_error, span))
            ending.enter_context(self._use(span))
            yield EnqueueSpan(span, as_traceparent(span.get_span_context()))

    def attempt(self, what: str, asked_by: str | None, attributes: Attributes) -> Span:
        """Begin the span of an attempt, linked to the enqueue. The caller must end it."""
        all_attributes = {SYSTEM: "standfast", OPERATION: "process", OPERATION_TYPE: "process", **attributes}
        known = asked_by and read_traceparent(asked_by)
        links = [self._trace.Link(self._read(known))] if known else []
        kind = self._trace.SpanKind.CONSUMER
        root = self._context.Context()
        return self._begun(f"process {what}", root, kind=kind, attributes=all_attributes, links=links)

    def end(self, span: Span) -> None:
        """End a span."""
        call_guarded(span.end, _left_out)

    def _begun(self, name: str, parent: Context | None, **about: Any) -> Span:
        """Begin a span; if a processor or sampler raises an error, go on without one."""

        def nothing(error: Exception) -> Span:
            _left_out(error)
            spoiled: Span = self._trace.INVALID_SPAN
            return spoiled

        return call_guarded(lambda: self._tracer.start_span(name, parent, **about), nothing)

    @contextmanager
    def use_span(self, span: Span) -> Iterator[None]:
        """Make the code in this block part of an attempt's span. Errors are recorded and raised again."""
        with ExitStack() as ending:
            ending.callback(_current.reset, _current.set(as_traceparent(span.get_span_context())))
            ending.push(partial(self._raised, span))
            ending.enter_context(self._use(span))
            yield

    def _use(self, span: Span) -> AbstractContextManager[Span]:
        """Make a span the current one; we record errors ourselves, without secrets."""
        return self._trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def _record_error(self, span: Span, _: object, error: BaseException | None, _trace: object) -> None:
        self._raised(span, _, error, _trace)
        if error is not None:
            self.failed(span, type(error).__name__)

    def _raised(self, span: Span, _: object, error: BaseException | None, _trace: object) -> None:
        """Record an exception; skip those that only stop the code, such as a cancellation."""
        if not isinstance(error, Exception):
            return
        found = traceback.TracebackException.from_exception(error)
        event = {
            "exception.type": type(error).__qualname__,
            "exception.message": redacted_text(str(found)),
            "exception.stacktrace": redacted_text("".join(found.format())[-LONGEST_TRACE:], longest=LONGEST_TRACE),
        }
        span.add_event("exception", event)

    def failed(self, span: Span, why: str) -> None:
        """Mark a span as failed."""
        span.set_attribute(ERROR, why)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, why))

    @contextmanager
    def continue_trace(self, traceparent: str | None) -> Iterator[None]:
        """Continue a trace from outside, unless one is under way here or the given one cannot be read."""
        here = self._trace.get_current_span().get_span_context()
        given = None if traceparent is None or here.is_valid else read_traceparent(traceparent)
        if given is None:
            yield
            return
        with self._trace.use_span(self._trace.NonRecordingSpan(self._read(given)), record_exception=False):
            yield

    def _read(self, traceparent: str) -> SpanContext:
        _, whole, span, flags = traceparent.split("-")
        return self._trace.SpanContext(
            trace_id=int(whole, 16),
            span_id=int(span, 16),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(int(flags, 16)),
        )


def _left_out(error: Exception) -> None:
    """Log an error of OpenTelemetry: no job may fail because of a trace."""
    log.warning("a span could not be made or ended, and its work goes on: %s", redacted_text(repr(error)))


class EnqueueSpan:
    """A span around an enqueue, and its `traceparent`, which the job carries."""

    def __init__(self, span: Span, traceparent: str | None) -> None:
        self.traceparent = traceparent
        self._span = span

    def say(self, attributes: Attributes) -> None:
        """Add attributes to the span."""
        self._span.set_attributes(dict(attributes))


def as_traceparent(context: SpanContext) -> str | None:
    """Return a span's `traceparent`; None if its context is not valid."""
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
