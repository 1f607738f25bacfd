"""One event loop in a thread of its own, for code that cannot await: created on first use, shared by the whole process.

It keeps running between two calls, so that what a call began (an attempt, its heartbeats, a worker) keeps running too.
A forked child creates its own. When the interpreter ends, the coroutines that still run there are cancelled; a later
call runs in a loop in the caller's own thread.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar

from standfast.concurrency.guarded import call_guarded
from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.threads import try_start
from standfast.errors import StoreUnavailable
from standfast.portable import at_fork

T = TypeVar("T")
LAST_SECONDS = 5.0
"""How long the end of the process waits for cancelled coroutines."""


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread


class LoopThread:
    """The loop of one process."""

    def __init__(self) -> None:
        self._starting = ForkableLock()
        self._running: _Running | None = None
        self._inherited: _Running | None = None
        """The parent process's loop: kept, because deleting it would close what the parent still uses."""
        self._ended = False
        self._abandoning = False
        """Whether the calls that still wait will never be answered."""
        self._awaited: set[Future[Any]] = set()
        """The futures that callers wait on: ours, since a late answer would fail on an abandoned one of asyncio."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it in this thread. An interrupt ends the wait and cancels it."""
        running = self._started()
        if running is None or running.thread is threading.current_thread():
            return _run_apart(work)
        try:
            running_there = asyncio.run_coroutine_threadsafe(work, running.loop)
        except RuntimeError:  # the loop was closed since it was looked up
            return _run_apart(work)
        answer: Future[T] = Future()
        self._awaited.add(answer)
        running_there.add_done_callback(partial(_pass_on, answer))
        if self._abandoning:
            _abandon(answer)
        try:
            return answer.result()
        finally:
            self._awaited.discard(answer)
            running_there.cancel()  # does nothing if it has ended

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the loop without waiting for it; drop it if there is no loop."""
        running = self._running
        if running is None or self._ended:
            work.close()
        else:
            asyncio.run_coroutine_threadsafe(work, running.loop)

    def _started(self) -> _Running | None:
        if self._running is not None or self._ended:
            return None if self._ended else self._running
        with self._starting:
            if self._running is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(loop,), name="standfast-sync", daemon=True)
                if not try_start(thread):
                    loop.close()
                    return None
                self._running = _Running(loop, thread)
                atexit.register(self._end)
        return self._running

    def forget(self) -> None:
        """Leave the loop to the parent, which has its thread: this is a forked child."""
        atexit.unregister(self._end)
        self._inherited, self._running = self._running, None
        self._awaited = set()

    def _end(self) -> None:
        running, self._ended = self._running, True
        if running is not None:
            with suppress(RuntimeError):  # the loop was closed
                running.loop.call_soon_threadsafe(running.loop.stop)
            running.thread.join(LAST_SECONDS)
        self._abandoning = True
        for answer in [*self._awaited]:
            _abandon(answer)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


def _pass_on(answer: Future[Any], ended: Future[Any]) -> None:
    """Give a caller the result of its coroutine, unless the caller was abandoned before."""
    with suppress(InvalidStateError):
        if ended.cancelled():
            answer.cancel()
        elif (error := ended.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(ended.result())


def _abandon(answer: Future[Any]) -> None:
    """Release a thread that waits for an answer that will never come: its loop has ended, or hangs."""
    what = "this process is ending, and it is not known whether this was written; call again with the same key"
    with suppress(InvalidStateError):  # it was answered just now
        answer.set_exception(StoreUnavailable(what, definite=False))


def _run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop that ends with it: in this thread, or in another one if a loop runs here."""
    if not loop_runs_here():
        return asyncio.run(work)
    answer: Future[T] = Future()
    context = copy_context()

    def give() -> None:
        call_guarded(lambda: answer.set_result(context.run(asyncio.run, work)), answer.set_exception)

    if not try_start(threading.Thread(target=give, name="standfast-sync-apart", daemon=True)):
        work.close()
        raise RuntimeError("an event loop runs in this thread and no other thread can be started; await the verb here")
    return answer.result()


def loop_runs_here() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


THE_LOOP = LoopThread()
at_fork(after_in_child=THE_LOOP.forget)
