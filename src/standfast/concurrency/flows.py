"""Answers to await, or to wait for in a thread: one body of code serves callers with and without an event loop.

A flow is a coroutine that awaits nothing but answers and other flows. On a loop it is awaited as usual. `run_sync` runs
it in the caller's thread: the thread blocks for each answer, and the flow never suspends.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from standfast.concurrency.loop_thread import THE_LOOP, loop_runs_here
from standfast.concurrency.threads import run_in_thread

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
T_co = TypeVar("T_co", covariant=True)


class _Mode(threading.local):
    blocks = False
    """Whether this thread runs a flow that must not suspend."""


MODE = _Mode()


class Answer(ABC, Generic[T_co]):
    """An answer to come. The work starts once: when this is awaited, or when `result()` is called."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Wait for the answer on this loop, or in this thread if a flow runs without a loop."""
        return at_once(self.result()) if MODE.blocks else self.wait_on_loop()

    @abstractmethod
    def wait_on_loop(self) -> Generator[Any, Any, T_co]:
        """Wait for the answer on this loop."""

    @abstractmethod
    def result(self) -> T_co:
        """Wait for the answer in this thread."""


def at_once(result: T) -> Generator[Any, Any, T]:
    """Return a known result to code that awaits it."""
    yield from ()
    return result


class SyncOrAsync(Answer[T_co]):
    """An answer that two functions can get: one on the loop, one by blocking the caller's thread."""

    __slots__ = ("_awaited", "_blocking")

    def __init__(self, awaited: Callable[[], Awaitable[T_co]], blocking: Callable[[], T_co]) -> None:
        self._awaited = awaited
        self._blocking = blocking

    def wait_on_loop(self) -> Generator[Any, Any, T_co]:
        """Wait for the answer on this loop."""
        return self._awaited().__await__()

    def result(self) -> T_co:
        """Wait for the answer in this thread."""
        return self._blocking()


def run_off_loop(work: Callable[..., T], *given: object) -> Answer[T]:
    """Do blocking work: on another thread if a loop waits, otherwise in the caller's thread."""
    return SyncOrAsync(partial(run_in_thread, work, *given), partial(work, *given))


def run_on_loop(awaitable: Awaitable[T]) -> Answer[T]:
    """Wait for an awaitable that needs a loop; callers without a loop get one for it."""
    return SyncOrAsync(lambda: awaitable, lambda: _in_a_loop(awaitable))


def _in_a_loop(awaitable: Awaitable[T]) -> T:
    async def wait() -> T:
        return await awaitable

    with _blocks(on=False):
        return THE_LOOP.run(wait()) if loop_runs_here() else asyncio.run(wait())


def flow(function: F) -> F:
    """Mark an async function as a flow: `sf.sync` then runs it in the caller's thread."""
    _flows.add(function)
    return function


def is_flow(function: object) -> bool:
    """Return whether an async function is marked as a flow."""
    return getattr(function, "__func__", function) in _flows


_flows: set[object] = set()


def run_sync(flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow in this thread, for a caller without a loop."""
    with _blocks(on=True):
        try:
            flow.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
    flow.close()
    raise RuntimeError("a flow waited for something that only a loop can give")


@contextmanager
def _blocks(*, on: bool) -> Iterator[None]:
    before, MODE.blocks = MODE.blocks, on
    try:
        yield
    finally:
        MODE.blocks = before
