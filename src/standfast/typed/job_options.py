"""What can be said about a job when it is enqueued, submitted, scheduled or made a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypedDict

from standfast.job import Risk
from standfast.rules import Coalesce

When = datetime | float
"""A moment: a datetime with a time zone, or seconds since 1970."""
Duration = float | str | timedelta
"""A length of time: seconds, text such as `"15m"`, or a timedelta."""
Otherwise = Callable[[], Any]
"""Takes no argument; plain or async."""
Keys = Iterable[str | None] | Callable[[Any], str | None]
"""What `keys=` takes: one key for each payload, in their order, or a function that gives a payload's key.

None is no key.
"""
Ages = When | Iterable[When | None] | Callable[[Any], When | None]
"""What `first_seen_at=` of several payloads takes: one moment for all, or one for each, in the same ways."""


class _OfAnyJob(TypedDict, total=False):
    priority: int | None
    """Higher runs first; unless given, the queue's `priority`."""
    attempts: int | None
    """How many attempts the job has, the first included; unless given, the queue's `attempts`."""
    lease: Duration | None
    """How long after its worker's last heartbeat the job counts as lost; unless given, the queue's `lease`."""
    session: str | None
    """The agent's session that asks; its inbox gets the outcome, and `current_session()` returns it."""
    requester: str | None
    """Who asks, for policies and for people who look; unless given, the session or the operating system's user."""
    risk: Risk | None
    """How much harm a mistake does: `"low"`, `"medium"`, `"high"` or `"critical"`; policies match it."""
    labels: dict[str, str] | None
    """Names and values of yours, to search and filter jobs by."""


class _Threaded(TypedDict, total=False):
    thread_key: str | None
    """Jobs of a queue with the same thread key run one at a time, in the order they were enqueued."""


class _Folded(TypedDict, total=False):
    coalesce: Coalesce | None
    """What happens to a job of the same thread that is still waiting: `"never"` keeps it, `"latest"` replaces it,
    `"collect"` joins both payloads. Unless given, the queue's `coalesce`."""


class _Timed(TypedDict, total=False):
    delay: Duration | None
    """How long to wait before the job may start: seconds, text such as `"5m"`, or a timedelta."""
    at: When | None
    """When the job may start: a datetime with a time zone, or seconds since 1970. Give `delay` or `at`, not both."""
    expires: When | None
    """The job may not start after this moment; it then dies as `expired`."""


class _Keyed(TypedDict, total=False):
    idempotency_key: str | None
    """A name for this piece of work: a second job with the same key is a `duplicate` and is not stored."""


class _Aged(TypedDict, total=False):
    first_seen_at: When | None
    """When the work was first wanted, if that was before now: for work that waited elsewhere."""


class _Stored(TypedDict, total=False):
    otherwise: Otherwise | None
    """Called without arguments if the job certainly cannot be stored now."""
    tx: Any
    """Your connection, with an open transaction: the job exists if and only if you commit it."""


class BulkOptions(_OfAnyJob, _Threaded, _Folded, _Timed, _Keyed, total=False):
    """What the jobs of one call can share."""


class JobOptions(BulkOptions, _Aged, total=False):
    """What can be said about one job."""


class EnqueueOptions(JobOptions, _Stored, total=False):
    """What `handler.enqueue` takes besides the payload."""


class EnqueueManyOptions(BulkOptions, _Stored, total=False):
    """What `handler.enqueue_many` takes besides the payloads."""

    keys: Keys | None
    """Each job's own idempotency key: a list with one for each payload, or a function of the payload."""
    first_seen_at: Ages | None
    """When the work was first wanted: one moment for all, a list, or a function of the payload."""


class ScheduleOptions(_OfAnyJob, _Threaded, _Folded, total=False):
    """What the jobs of a schedule can be given."""

    handler: str | None
    """The handler that does it, if its name is not the queue's."""


class StepOptions(_OfAnyJob, _Timed, _Folded, total=False):
    """What a step of a workflow can be given; `delay` and `at` say how early it may start."""


class RunOptions(_Keyed, total=False):
    """What `handler.run` takes besides the payload."""

    session: str | None
    """The agent's session that asks."""
    timeout: Duration | None
    """How long the call may take; unless given, what the handler or its queue allows."""
    requester: str | None
    """Who asks, if that is neither the session nor the operating system's user."""


class SubmitOptions(_Keyed, total=False):
    """What `handler.submit` takes besides the payload."""

    session: str | None
    """The agent's session that asks; its inbox gets the outcome."""
    priority: int | None
    """Higher runs first; unless given, the queue's `priority`."""
    lease: Duration
    """How long after its worker's last heartbeat the call counts as lost; unless given, 600 seconds."""
    requester: str | None
    """Who asks, if that is neither the session nor the operating system's user."""
