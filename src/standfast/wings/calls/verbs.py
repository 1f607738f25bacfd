"""Calls of handlers: which one is meant, the job that records it, and what its Reply says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from standfast.errors import ConfigurationError
from standfast.job import Details, NewJob, QueueReason
from standfast.lifecycle import State
from standfast.rules import seconds
from standfast.spine.accept import Duration, checked_name
from standfast.spine.registry import Handler, Registry
from standfast.views import JobView
from standfast.wings.calls.replies import goes_on, parked

LONGEST_TIMEOUT = 1e10

_details = msgspec.json.Decoder(Details).decode


class Target(NamedTuple):
    """A handler, by its queue and name."""

    queue: str
    handler: str


Known = Callable[[str], Awaitable[list[tuple[str, str]]]]
"""Gives the handlers that other processes declared and a name may mean."""


async def meant(handler: object, registry: Registry, elsewhere: Known, queues: Collection[str] | None = None) -> Target:
    """Find the handler that a caller means: by itself, or by a name that this process knows, or that others do.

    A name is `queue/handler`, a queue's that has one handler or one named like it, or a handler's that is the only one
    so named. What nobody declared is taken as a queue's name, as `enqueue` does. With `queues`, handlers of others are
    not there for the caller, and not named to them.
    """
    if isinstance(handler, Handler):
        return Target(handler.queue, handler.name)
    name = checked_name("handler", handler)
    here = [(declared.queue, declared.name) for declared in registry.declarations()]
    queue, _, last = name.rpartition("/")
    built_in = Target(queue, last) if queue and last in registry.built_in else None
    return _chosen(name, here, queues) or built_in or _chosen(name, await elsewhere(name), queues) or _undeclared(name)


def _chosen(name: str, declared: Iterable[tuple[str, str]], queues: Collection[str] | None) -> Target | None:
    known = [Target(*each) for each in declared if queues is None or each[0] in queues]
    ways = (
        [each for each in known if f"{each.queue}/{each.handler}" == name],
        [each for each in known if each == (name, name)],
        [each for each in known if each.queue == name],
        [each for each in known if each.handler == name],
    )
    found = next((way for way in ways if way), [])
    if len(found) > 1:
        several = ", ".join(sorted(f"{each.queue}/{each.handler}" for each in found))
        raise ConfigurationError(f"{name!r} can mean {several}; nothing was written: name one of them")
    return found[0] if found else None


def _undeclared(name: str) -> Target:
    queue, _, handler = name.partition("/")
    return Target(queue, handler) if queue and handler else Target(name, name)


def because(job: NewJob, reason: QueueReason) -> NewJob:
    """Have a job say why it would be in the queue."""
    details = msgspec.structs.replace(_details(job.details), queue_reason=reason)
    return msgspec.structs.replace(job, details=msgspec.json.encode(details).decode())


def is_theirs(found: JobView, asked: NewJob, requester: str | None) -> bool:
    """Tell whether the job that a key belongs to is another session's, or, where a door says who asks, another's.

    Who names no session is the application itself, or a person at a shell: they may look at every job anyway.
    """
    sessions = {found.session, _details(asked.details).session} - {None}
    return len(sessions) > 1 or requester not in {None, found.requester}


def checked_timeout(timeout: Duration | None) -> float | None:
    """Check how long a caller wants to wait."""
    span = timeout.total_seconds() if isinstance(timeout, timedelta) else seconds(timeout)
    if span is None:
        return None
    if isinstance(span, bool) or not isinstance(span, int | float) or not 0 < span < LONGEST_TIMEOUT:
        raise ConfigurationError(f"timeout must be more than 0 seconds, not {timeout!r}")
    return float(span)


async def worded(job: JobView, explain: Callable[[str], Awaitable[str]]) -> dict[str, Any]:
    """Word where a call stands; one that waits without having failed says what for."""
    waits = job.state == State.QUEUED and not job.attempts and job.queue_reason != "deferred_submit"
    if job.state == State.WAITING or (waits and job.view != "scheduled"):
        return parked(job, await explain(job.id))
    return goes_on(job)
