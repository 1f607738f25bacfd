"""What a caller hands to the engine, and how it gets its answer: on its event loop, or blocking in its thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from standfast.concurrency.flows import MODE, Answer, at_once
from standfast.concurrency.threads import with_timeout
from standfast.errors import StoreUnavailable, WrongAddress
from standfast.store.scripts import Call, Write

T = TypeVar("T")
NEVER = float("inf")

_items = attrgetter("items")


class ThreadAnswer(Generic[T]):
    """Where a thread waits for its answer.

    A signal in the main thread while it answers others can leave a `Future` locked forever; this class has no lock.
    """

    __slots__ = ("_answered", "_answers")

    def __init__(self) -> None:
        self._answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        self._answered = False

    def done(self) -> bool:
        """Return whether there is an answer."""
        return self._answered

    def set_result(self, result: T) -> None:
        """Answer with a result."""
        self._answers.put((result, None))
        self._answered = True

    def set_exception(self, error: BaseException) -> None:
        """Answer with an error."""
        self._answers.put((None, error))
        self._answered = True

    def result(self, seconds: float | None) -> T:
        """Wait for the answer; raise TimeoutError if none comes in time."""
        try:
            result, error = self._answers.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


class Request(Answer[T]):
    """The items of one caller for one script. Requests in one round that share a script run as one batch.

    A caller may give up until its request is taken into a transaction; then it is certain that nothing was written.
    """

    __slots__ = (
        "_begun",
        "_put",
        "apart",
        "deadline",
        "doubtful",
        "future",
        "held_up",
        "items",
        "loop",
        "room",
        "script",
        "single",
        "size",
        "taken",
        "withdrawn",
    )

    future: asyncio.Future[T] | ThreadAnswer[T]
    """Where the answer goes; exists once the request is handed in."""

    def __init__(
        self,
        script: Write[Any, Any],
        items: Sequence[Any],
        put: Callable[[Request[Any]], None],
        *,
        seconds: float | None = None,
        single: bool = False,
    ) -> None:
        self.script = script
        self.items = items
        self.size = len(items) if script.size is None else sum(map(script.size, items))
        self.room = script.room
        self.apart = script.separate
        self.single = single
        """Whether its caller passed one item and expects one result."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.deadline = NEVER if seconds is None else time.monotonic() + seconds
        self.held_up = False
        self.taken = False
        self.withdrawn = False
        self.doubtful = False
        self._put = put
        self._begun = False

    @property
    def is_divisible(self) -> bool:
        """Whether it has several items, and a caller who waits forever: one that can hand them in one by one."""
        return self.deadline == NEVER and len(self.items) > 1

    def __await__(self) -> Generator[Any, Any, T]:
        """Hand the request in and wait for the answer, as every `Answer` does, but in fewer steps."""
        return at_once(self.result()) if MODE.blocks else self.start().__await__()

    def start(self) -> asyncio.Future[T]:
        """Hand the request in now; it is answered on this loop."""
        if not self._begun:
            self.loop = asyncio.get_running_loop()
            self.future = self.loop.create_future()
            self._begun = True
            self._put(self)
        if isinstance(self.future, ThreadAnswer):
            raise TypeError("this is answered in a thread, and cannot be awaited as well")
        return self.future

    def wait_on_loop(self) -> Generator[Any, Any, T]:
        """Hand the request in, and wait for the answer on this loop."""
        return self.start().__await__()

    def result(self) -> T:
        """Hand the request in, and wait for the answer in this thread, until the deadline at the latest."""
        if self._begun:
            raise TypeError("this was handed in before")
        future: ThreadAnswer[T] = ThreadAnswer()
        self.future = future
        self._begun = True
        self._put(self)
        limit = None if self.deadline == NEVER else max(0.0, self.deadline - time.monotonic())
        try:
            return future.result(limit)
        except TimeoutError:
            raise self.give_up() from None

    def put_back(self, *, doubtful: bool) -> None:
        """Return the request from a failed transaction; it is doubtful if the COMMIT may have landed."""
        self.doubtful = self.doubtful or doubtful  # first, because its caller may give up between the two
        self.taken = False

    def give_up(self) -> StoreUnavailable:
        """Withdraw the request, and return the error for a caller whose time ran out."""
        self.withdrawn = True
        definite = not (self.taken or self.doubtful)
        if definite:
            return StoreUnavailable("the store did not answer in time; nothing was written, call again", definite=True)
        return StoreUnavailable(
            "the store did not answer in time and may have written this; call again with the same key", definite=False
        )


class Reading(Answer[T]):
    """The result of a reading script. If the store may not answer at all, the wait is limited to `seconds`."""

    __slots__ = ("_begin", "_seconds", "_silent")

    def __init__(
        self,
        begin: Callable[[], Future[T]],
        seconds: float | None = None,
        silent: Callable[[], StoreUnavailable] | None = None,
    ) -> None:
        self._begin = begin
        self._seconds = seconds
        self._silent = silent
        """Returns the error for a caller whose time ran out."""

    def wait_on_loop(self) -> Generator[Any, Any, T]:
        """Wait for the result on this loop."""
        reading = asyncio.wrap_future(self._begin())
        return reading.__await__() if self._seconds is None else self._in_time(reading, self._seconds).__await__()

    async def _in_time(self, reading: asyncio.Future[T], seconds: float) -> T:
        try:
            return await with_timeout(reading, seconds)
        except TimeoutError:
            raise self._unanswered() from None

    def result(self) -> T:
        """Wait for the result in this thread."""
        reading = self._begin()
        try:
            return reading.result(self._seconds)
        except TimeoutError:
            reading.cancel()
            raise self._unanswered() from None

    def _unanswered(self) -> StoreUnavailable:
        return self._silent() if self._silent else StoreUnavailable("the store did not answer in time", definite=True)


Reply = tuple[Request[Any], Any]
"""A request with its results, or with the exception that it ends in."""


def deliver(answers: Sequence[Reply]) -> None:
    """Answer every caller of a round, with one hand-off for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[Reply]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    for loop, theirs in by_loop.items():
        if loop is None or loop is here:  # in a led round, this is the loop's own turn
            _resolve(theirs)
        else:
            with suppress(RuntimeError):  # the loop is closed and its callers are gone; the commit stands nevertheless
                loop.call_soon_threadsafe(_resolve, theirs)


def withdraw(refused: Sequence[Reply]) -> None:
    """Send these callers their refusals, and do nothing more for them."""
    deliver(refused)
    for request, _ in refused:
        request.withdrawn = True


def _resolve(answers: Sequence[Reply]) -> None:
    for request, result in answers:
        future = request.future
        if future.done():
            continue  # cancelled or timed out meanwhile
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result[0] if request.single else result)


def calls(pending: Sequence[Request[Any]], places: Mapping[Any, int]) -> list[Call]:
    """Take requests into the transaction that has just begun: grouped by script, in the order of `places`.

    The request of a caller that has given up is left out.
    """
    by_script: dict[Any, list[Request[Any]]] = {}
    for request in pending:
        request.taken = True  # first, because its caller may give up between the two
        if not request.withdrawn:
            by_script.setdefault(request.script.run, []).append(request)
    found = []
    for requests in by_script.values():
        items = requests[0].items
        if len(requests) > 1:
            items = [*chain.from_iterable(map(_items, requests))]
        found.append(Call(requests[0].script, items, requests))
    if len(found) > 1:
        found.sort(key=lambda call: places.get(call.script.run, -1))
    return found


def replies(calls: Sequence[Call], results: Sequence[Sequence[Any]]) -> list[Reply]:
    """Return each request with its share of its script's results."""
    found: list[Reply] = []
    for call, of_all in zip(calls, results, strict=True):
        start = 0
        for request in call.requests:
            end = start + len(request.items)
            found.append((request, of_all[start:end]))
            start = end
    return found


def refuse_for_good(pending: Sequence[Request[Any]], error: WrongAddress) -> None:
    """Refuse at once the requests that trying again cannot help.

    Requests that may have been written already are not refused, and neither are ends of attempts, which must not be
    lost: they are written once the address is corrected.
    """
    refused = [each for each in pending if not (each.doubtful or each.withdrawn or each.deadline == NEVER)]
    deliver([(request, WrongAddress(str(error))) for request in refused])
    for request in refused:
        request.withdrawn = True
