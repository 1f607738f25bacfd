"""Middleware: functions that the application wraps around every attempt of its handlers (`@sf.middleware`)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from standfast.errors import ConfigurationError
from standfast.outcome import Succeeded
from standfast.spine.claimed_job import ClaimedJob
from standfast.spine.registry import Handler
from standfast.spine.run import Call

Around = TypeVar("Around", bound=Callable[..., Awaitable[Any]])
OWN_QUEUES = "standfast."
"""The prefix of standfast's own queues, which deliver alerts: middleware does not apply to them."""


class Middleware(list[Callable[[Handler, Call], Call]]):
    """The middleware of one process. The last one declared comes first: it is the innermost."""

    def declare(self, around: Around) -> Around:
        """Wrap a function around every attempt, inside the middleware declared earlier."""
        self.insert(0, partial(_wrapped, checked_middleware(around)))
        return around


def checked_middleware(around: Around) -> Around:
    """Refuse a function that cannot be middleware, now rather than at the first job."""
    try:
        inspect.signature(around).bind(None, None)
    except (TypeError, ValueError):
        takes_both = False
    else:
        takes_both = True
    called = getattr(around, "__call__", None)  # noqa: B004 - an object with an async __call__ will do
    if not takes_both or not any(map(inspect.iscoroutinefunction, (around, called))):
        raise ConfigurationError(
            f"@sf.middleware takes an async function of two arguments, async def around(job, call_next), not {around!r}"
        )
    return around


def _wrapped(around: Callable[..., Awaitable[Any]], handler: Handler, call: Call) -> Call:
    if handler.queue.startswith(OWN_QUEUES):
        return call

    async def attempt(job: ClaimedJob) -> Any:
        return await around(job, CallNext(job, handler, call))

    return attempt


class CallNext:
    """Calls the next middleware, and finally the handler; returns its result or raises its error."""

    def __init__(self, job: ClaimedJob, handler: Handler, call: Call) -> None:
        self._job = job
        self._handler = handler
        self._call = call
        self._called = False

    async def __call__(self, job: ClaimedJob | None = None) -> Any:
        """Continue, once: a second try of the handler is up to its queue, which counts and records it."""
        if job is not None and job is not self._job:
            raise ConfigurationError("call_next goes on with the job of this attempt; call it without another one")
        if self._called:
            raise ConfigurationError(
                f"middleware called call_next twice for job {self._job.id}; the handler {self._handler.name} was not "
                "entered again: raise, and its queue repeats it"
            )
        self._called = True
        result = await self._call(self._job)
        return _readable(result)


def _readable(result: Any) -> Any:
    """Return the result of a handler as a value; from a child process it comes as JSON text."""
    if isinstance(result, Succeeded) and result.warning is None:
        return None if result.result is None else msgspec.json.decode(result.result)
    return result
