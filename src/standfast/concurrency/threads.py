"""Runs blocking work on threads of its own, outside the event loop.

The loop's own threads are few and belong to the application: handlers that occupy all of them must not stop the queue.

`concurrent.futures` accepts no more work once the main thread has ended, although other threads and exit handlers go on
and may have jobs to store. These threads do. If no thread can be started at all, the caller does the work itself.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from standfast.concurrency.guarded import call_guarded
from standfast.errors import StoreClosed, StoreUnavailable

Answer = TypeVar("Answer")
Task = Callable[[], None]


SHORT_TURN, PYTHONS_TURN = 0.0001, 0.005
"""Seconds that a thread may run before another one gets its turn: in a worker's own process, and Python's default."""


@contextmanager
def short_turns() -> Iterator[None]:
    """Let the threads of this process, which is a worker's own, take turns of a tenth of a millisecond.

    For most of a round the writer works outside of Python, in parallel to the loop. With Python's turns of 5 ms it
    would wait that long each time it returns to Python while handlers run, and so would the loop while a plain
    function computes. An interval that the application has set itself stays.
    """
    before = sys.getswitchinterval()
    if before != PYTHONS_TURN:
        yield
        return
    sys.setswitchinterval(SHORT_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_in_thread(work: Callable[..., Answer], *given: object) -> asyncio.Future[Answer]:
    """Do the work on a new thread; return a future of the running loop for its answer."""
    future: Future[Answer] = Future()
    task = _task(future, work, given)
    if not try_start(threading.Thread(target=task, name="standfast-aside")):
        task()
    return asyncio.wrap_future(future)


async def with_timeout(work: Awaitable[Answer], seconds: float) -> Answer:
    """Await the work for at most this many seconds, or raise TimeoutError.

    Unlike `asyncio.wait_for` of Python 3.11, this never swallows a cancellation that comes just as the work is done:
    the task would go on, and the code that cancelled it would wait forever. And unlike `asyncio.timeout` before Python
    3.11.4, it also raises TimeoutError in a task that is being cancelled and is cleaning up.
    """
    task = asyncio.current_task()
    cancelling = 0 if task is None else task.cancelling()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except asyncio.CancelledError:
        if limit.expired() and task is not None and task.cancelling() <= cancelling:
            raise TimeoutError from None
        raise


def start(thread: threading.Thread) -> None:
    """Start a thread, or raise StoreUnavailable: nothing works without it."""
    if not try_start(thread):
        raise StoreUnavailable(
            "no thread can be started: this process is ending, or has too many; nothing was written", definite=True
        )


def try_start(thread: threading.Thread) -> bool:
    """Start a thread; return whether that worked: an interpreter that is ending may refuse."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


class Threads:
    """A pool of at most `most` threads. The end of the process does not wait for them."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._waiting: SimpleQueue[Task | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._growing = threading.Lock()
        self._closed = False

    def submit(self, work: Callable[..., Answer], *given: object) -> Future[Answer]:
        """Let one of the threads do the work."""
        if self._closed:
            raise StoreClosed
        future: Future[Answer] = Future()
        self._waiting.put(_task(future, work, given))
        if not (self._idle.acquire(blocking=False) or self._grow()):
            self._do_here()
        return future

    def shutdown(self) -> None:
        """Do the waiting work, and end the threads."""
        self._closed = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._do_here()

    def _grow(self) -> bool:
        """Add a thread if the limit allows; return whether there is any thread."""
        with self._growing:
            if len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                if try_start(thread):
                    self._threads.append(thread)
            return bool(self._threads)

    def _do_here(self) -> None:
        with suppress(Empty):
            while True:
                task = self._waiting.get_nowait()
                if task is not None:
                    task()

    def _run(self) -> None:
        while (task := self._waiting.get()) is not None:
            task()
            del task  # its arguments must not stay alive until the next task comes
            self._idle.release()


def _task(future: Future[Any], work: Callable[..., Any], given: tuple[object, ...]) -> Task:
    return partial(_do, future, partial(work, *given))


def _do(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        call_guarded(lambda: future.set_result(work()), future.set_exception)
