"""What a verb of the store gives: an answer that is awaited, or asked for with `result()` from code without a loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from standfast.concurrency.threads import within
from standfast.errors import StoreUnavailable

T_co = TypeVar("T_co", covariant=True)


class Answer(ABC, Generic[T_co]):
    """What the store will say. It is asked once, when this is awaited or `result()` is called."""

    __slots__ = ()

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, T_co]:
        """Wait for it on this loop."""

    @abstractmethod
    def result(self) -> T_co:
        """Wait for it in this thread."""


class Reading(Answer[T_co]):
    """What a reading script finds. A store that may not answer at all is given `seconds`."""

    __slots__ = ("_begin", "_seconds", "_silent")

    def __init__(
        self,
        begin: Callable[[], Future[T_co]],
        seconds: float | None = None,
        silent: Callable[[], StoreUnavailable] | None = None,
    ) -> None:
        self._begin = begin
        self._seconds = seconds
        self._silent = silent
        """Words the error for a caller whose time ran out."""

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Wait for it on this loop."""
        reading = asyncio.wrap_future(self._begin())
        return reading.__await__() if self._seconds is None else self._in_time(reading, self._seconds).__await__()

    async def _in_time(self, reading: asyncio.Future[T_co], seconds: float) -> T_co:
        try:
            return await within(reading, seconds)
        except TimeoutError:
            raise self._unanswered() from None

    def result(self) -> T_co:
        """Wait for it in this thread."""
        reading = self._begin()
        try:
            return reading.result(self._seconds)
        except TimeoutError:
            reading.cancel()
            raise self._unanswered() from None

    def _unanswered(self) -> StoreUnavailable:
        return self._silent() if self._silent else StoreUnavailable("the store did not answer in time", definite=True)


class EitherWay(Answer[T_co]):
    """What two functions do the same way: one on the loop, one in the thread that asks."""

    __slots__ = ("_awaited", "_blocking")

    def __init__(self, awaited: Callable[[], Coroutine[Any, Any, T_co]], blocking: Callable[[], T_co]) -> None:
        self._awaited = awaited
        self._blocking = blocking

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Wait for it on this loop."""
        return self._awaited().__await__()

    def result(self) -> T_co:
        """Wait for it in this thread."""
        return self._blocking()
