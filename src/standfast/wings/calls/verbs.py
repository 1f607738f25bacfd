"""Calls of handlers: which one is meant, the job that records the call, and what its Reply says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.job import Details, NewJob, QueueReason
from standfast.lifecycle import State
from standfast.rules import seconds
from standfast.typed.job_options import Duration
from standfast.views import JobView
from standfast.wings.calls.replies import parked, still_running

LONGEST_TIMEOUT = 1e10

_details = msgspec.json.Decoder(Details).decode


def with_queue_reason(job: NewJob, reason: QueueReason) -> NewJob:
    """Set the reason why a job would be in the queue."""
    details = msgspec.structs.replace(_details(job.details), queue_reason=reason)
    return msgspec.structs.replace(job, details=msgspec.json.encode(details).decode())


def belongs_to_other(found: JobView, new: NewJob, requester: str | None) -> bool:
    """Return whether the job that a key belongs to is another session's, or another requester's if one is given.

    A caller without a session is the application itself, or a person at a shell: they may see every job anyway.
    """
    sessions = {found.session, _details(new.details).session} - {None}
    return len(sessions) > 1 or requester not in {None, found.requester}


def checked_timeout(timeout: Duration | None) -> float | None:
    """Check how long a caller wants to wait."""
    span = timeout.total_seconds() if isinstance(timeout, timedelta) else seconds(timeout)
    if span is None:
        return None
    if isinstance(span, bool) or not isinstance(span, int | float) or not 0 < span < LONGEST_TIMEOUT:
        raise ConfigurationError(f"timeout must be more than 0 seconds, not {timeout!r}")
    return float(span)


async def reply_of(job: JobView, explain: Callable[[str], Awaitable[str]]) -> dict[str, Any]:
    """Word how a call stands. If it waits without having failed, say what it waits for."""
    waits = job.state == State.QUEUED and not job.attempts and job.queue_reason != "deferred_submit"
    if job.state == State.WAITING or (waits and job.view != "scheduled"):
        return parked(job, await explain(job.id))
    return still_running(job)
