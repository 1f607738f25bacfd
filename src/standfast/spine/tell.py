"""The log line of a failed attempt, written once its end is on disk: what happened, and what happens next.

Messages come from handlers and receivers. Secrets in them are hidden, because more people read a log than read a job.
"""

from __future__ import annotations

import logging
from typing import Any

from standfast.job import Claim
from standfast.lifecycle import Move, Transition
from standfast.printable import span as length
from standfast.redact import redacted_text
from standfast.telemetry import as_traceparent

log = logging.getLogger("standfast.worker")

TRACEBACK = "traceback"
"""The attribute of a log record that holds where a handler raised, without secrets."""


def _with_traceback(record: logging.LogRecord) -> bool:
    """Make every formatter write the traceback after the message, as it does for `exc_info`."""
    record.exc_text = record.exc_text or getattr(record, TRACEBACK, None)
    return True


log.addFilter(_with_traceback)

SUBJECT = "job %s of queue %s, handler %s, %s: %s"


def tell(end: Transition, claim: Claim, span: Any = None, traceback: str | None = None) -> None:
    """Log the end of a failed attempt. A new letter is logged as an error, because a person must look at it.

    With a span, the line carries the attempt's trace. `traceback` says where its handler raised.
    """
    if end.failure is None and not end.carries:
        return
    attempt = end.attempt_failure
    next_step = _next_step(end)
    if attempt is None or attempt.reason_code == "cancelled" or next_step is None:
        return
    message = f"{attempt.reason_code}: {redacted_text(attempt.message)}" if attempt.message else attempt.reason_code
    which = f"attempt {end.attempt} of {claim.max_attempts}" if end.begun else "not begun"
    about = (end.id, end.queue, claim.handler, which, message)
    fields = {**claim.log_fields, "reason_code": attempt.reason_code, TRACEBACK: traceback}
    if span is not None:
        fields["traceparent"] = as_traceparent(span.get_span_context())
    log.log(next_step[0], "%s; %s", SUBJECT % about, next_step[1], extra=fields)


def _next_step(end: Transition) -> tuple[int, str] | None:
    """Return the level and the text; None if the end is not worth a line."""
    for each in end.carries:
        known = each.next_step(end)
        if known is not None:
            return known
    if end.failure is None:
        return None
    if end.move in {Move.RETRY, Move.GIVE_BACK}:
        return logging.WARNING, f"it is tried again in {length(end.delay)}"
    return logging.ERROR, f"it is {end.target} ({end.failure.reason_code}): {end.failure.advice}"
