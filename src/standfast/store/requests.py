"""What a caller hands to the engine, and how it gets its answer: on its loop, or blocking in its thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from standfast.errors import StoreUnavailable
from standfast.store.scripts import Round, Script

ScriptFunction = Callable[[Round, Sequence[Any]], Script]

NEVER = float("inf")


class Request:
    """The items of one caller for one script. Requests of one round that share a script run as one batch.

    A caller may give up until its request is taken into a transaction; then nothing was written, for certain.
    """

    __slots__ = ("deadline", "doubtful", "future", "items", "loop", "room", "script", "taken", "withdrawn")

    def __init__(
        self,
        script: ScriptFunction,
        items: Sequence[Any],
        future: asyncio.Future[Any] | Future[Any],
        *,
        deadline: float = NEVER,
        room: int = 0,
    ) -> None:
        self.script = script
        self.items = items
        self.future = future
        self.loop = future.get_loop() if isinstance(future, asyncio.Future) else None
        self.deadline = deadline
        self.room = room
        self.taken = False
        self.withdrawn = False
        self.doubtful = False

    def take(self) -> bool:
        """Take this into the transaction that has just begun, unless its caller gave up before."""
        self.taken = True
        return not self.withdrawn

    def put_back(self, *, doubtful: bool) -> None:
        """Return this from a failed transaction; doubtful if its COMMIT may have landed."""
        self.taken = False
        self.doubtful = self.doubtful or doubtful

    def give_up(self) -> StoreUnavailable:
        """Withdraw, and word the error for the caller whose time ran out."""
        self.withdrawn = True
        definite = not (self.taken or self.doubtful)
        if definite:
            return StoreUnavailable("the store did not answer in time; nothing was written, call again", definite=True)
        return StoreUnavailable(
            "the store did not answer in time and may have written this; call again with the same key", definite=False
        )


Answer = tuple[Request, Any]
"""A request with its result, or with the exception it ends in."""


def deliver(answers: Sequence[Answer]) -> None:
    """Answer every caller of a round, with one hand-off for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for request, result in answers:
        if request.loop is not None:
            by_loop.setdefault(request.loop, []).append((request, result))
        elif isinstance(result, BaseException):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)
    for loop, batch in by_loop.items():
        if not loop.is_closed():  # else the callers are gone; what they asked for is committed all the same
            loop.call_soon_threadsafe(_resolve, batch)


def _resolve(batch: Sequence[Answer]) -> None:
    for request, result in batch:
        if request.future.done():
            continue  # cancelled or timed out meanwhile
        if isinstance(result, BaseException):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)


class Deadlines:
    """One timer for each loop watches the earliest deadline of all its calls; a timer per call would cost more."""

    def __init__(self) -> None:
        self._watched: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Request]] = WeakKeyDictionary()
        self._timed: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()

    async def answer(self, request: Request, loop: asyncio.AbstractEventLoop) -> Any:
        """Wait for the request's result, at most until its deadline."""
        if request.deadline == NEVER:
            return await request.future  # type: ignore[misc]
        watched = self._watched.get(loop)
        if watched is None:
            watched = self._watched[loop] = {}
        if request.deadline < self._timed.get(loop, NEVER):
            self._watch_until(loop, request.deadline)
        watched[id(request)] = request
        try:
            return await request.future  # type: ignore[misc]
        finally:
            del watched[id(request)]

    def _watch_until(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        self._timed[loop] = deadline
        loop.call_later(max(0.0, deadline - time.monotonic()), self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        self._timed.pop(loop, None)
        waiting = [request for request in self._watched[loop].values() if not request.future.done()]
        for request in waiting:
            if request.deadline <= now:
                request.future.set_exception(request.give_up())
        left = [request.deadline for request in waiting if request.deadline > now]
        if left:
            self._watch_until(loop, min(left))


def block(request: Request) -> Any:
    """Wait in this thread for the request's result, at most until its deadline."""
    limit = None if request.deadline == NEVER else max(0.0, request.deadline - time.monotonic())
    try:
        return request.future.result(limit)  # type: ignore[call-arg]
    except TimeoutError:
        raise request.give_up() from None
