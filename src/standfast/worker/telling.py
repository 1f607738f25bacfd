"""What the log says of an attempt that failed, once that is on disk: one line, with what happens next."""

from __future__ import annotations

import logging

from standfast.lifecycle import Move, Transition

log = logging.getLogger("standfast.worker")

SUBJECT = "job %s of queue %s, handler %s, attempt %d of %d: %s"


def tell(end: Transition, handler: str, allowed: int) -> None:
    """Log the end of an attempt that did not go well; a job that dies needs somebody, and is an error."""
    if end.failure is None or end.failure.reason_code == "cancelled":
        return
    attempt = end.last_failure or end.failure
    told = f"{attempt.reason_code}: {attempt.message}" if attempt.message else attempt.reason_code
    about = (end.id, end.queue, handler, end.attempt, allowed, told)
    if end.move == Move.RETRY:
        log.warning("%s; it is tried again in %.3g s", SUBJECT % about, end.delay)
    elif end.triage is not None and end.triage.replay_status == "scheduled":
        why = (end.target, end.failure.reason_code, end.triage.rule)
        log.warning("%s; it is %s (%s), and %s replays it by itself", SUBJECT % about, *why)
    else:
        log.error("%s; it is %s (%s): %s", SUBJECT % about, end.target, end.failure.reason_code, end.failure.advice)
