"""What the log says of an attempt that failed, once that is on disk: one line, with what happens next.

Its message is the handler's or a receiver's own, so the secrets in it are hidden: a log is read by others than a job.
"""

from __future__ import annotations

import logging
from typing import Any

from standfast.lifecycle import Move, Transition
from standfast.redact import redacted_text
from standfast.telemetry import as_traceparent

log = logging.getLogger("standfast.worker")

SUBJECT = "job %s of queue %s, handler %s, attempt %d of %d: %s"


def tell(end: Transition, handler: str, allowed: int, span: Any = None) -> None:
    """Log the end of an attempt that did not go well; a job that dies needs a person, and is logged as an error.

    Where traces are on, the line belongs to the attempt's.
    """
    attempt = end.last_failure or end.failure
    if attempt is None or attempt.reason_code == "cancelled" or (end.failure is None and not end.refused):
        return
    message = f"{attempt.reason_code}: {redacted_text(attempt.message)}" if attempt.message else attempt.reason_code
    about = (end.id, end.queue, handler, end.attempt, allowed, message)
    traced = None if span is None else {"traceparent": as_traceparent(span.get_span_context())}
    if end.failure is None:
        what = "%s; its receiver asked to wait %.3g s, and no attempt is spent"
        log.info(what, SUBJECT % about, end.delay, extra=traced)
    elif end.move in {Move.RETRY, Move.GIVE_BACK}:
        log.warning("%s; it is tried again in %.3g s", SUBJECT % about, end.delay, extra=traced)
    elif end.triage is not None and end.triage.replay_status == "scheduled":
        why = (end.target, end.failure.reason_code, end.triage.rule)
        log.warning("%s; it is %s (%s), and %s replays it by itself", SUBJECT % about, *why, extra=traced)
    else:
        why = (end.target, end.failure.reason_code, end.failure.advice)
        log.error("%s; it is %s (%s): %s", SUBJECT % about, *why, extra=traced)
