"""The one shape of every background loop: wait, do, guard; stopping twice is safe."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from standfast.concurrency.store_moved import tell_moved
from standfast.errors import StoreMoved

log = logging.getLogger("standfast.worker")

Answer = TypeVar("Answer")

PAUSE_AFTER_CANCELLATION = 0.5


class Guard:
    """Keeps a recurring task alive: unexpected failures are counted and logged, and the task is tried again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.failures = 0

    async def run(self, do: Callable[[], Awaitable[None]]) -> bool:
        """Run the task; return whether it succeeded."""
        try:
            await do()
        except StoreMoved as error:
            self.failures += 1
            tell_moved(error)
            return False
        except Exception:  # the loop guard: a loop that ended would silently leave its work undone
            self.failures += 1
            log.exception("the %s failed (%d times so far) and will try again", self._name, self.failures)
            return False
        return True


class Loop:
    """Calls a function every so many seconds until stopped."""

    def __init__(self, name: str, every: float, do: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._every = every
        self._do = do
        self._task: asyncio.Task[None] | None = None
        self._guard = Guard(name)

    @property
    def failures(self) -> int:
        """How often the function has failed so far."""
        return self._guard.failures

    def start(self) -> None:
        """Start on the running event loop."""
        self._task = asyncio.create_task(self._run(), name=f"standfast-{self._name}")

    async def stop(self) -> None:
        """Stop; calling this again does nothing."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _pause(self) -> None:
        await asyncio.sleep(self._every)

    async def _run(self) -> None:
        while True:
            await self._pause()
            await self._guard.run(self._do)


class ClaimTasks:
    """Runs claims, in the order in which they began. `again` is called when another claim may be made.

    Code that ends an event loop cancels its tasks, and jobs claimed in such a loop would never run. So a pause follows
    a cancellation: an ending loop never reaches the end of the pause, and in any other loop the worker claims again.
    """

    def __init__(self, again: Callable[[], None]) -> None:
        self._again = again
        self.pausing = False
        """Whether a claim was cancelled just now."""
        self.running: dict[asyncio.Task[None], tuple[float, Callable[[], None] | None]] = {}
        """The claims under way, oldest first: when each began, and what to call once it is answered."""
        self.answers = 0
        """How many claims were answered or given up."""

    @property
    def seconds(self) -> float:
        """How many seconds the oldest claim under way has been waiting; 0 if there is none."""
        began = next((began for began, _ in self.running.values()), None)
        return 0.0 if began is None else time.monotonic() - began

    def begin(
        self,
        claim: Coroutine[Any, Any, None],
        on_cancel: Callable[[], None],
        on_answer: Callable[[], None] | None = None,
    ) -> asyncio.Task[None]:
        """Make a claim; `on_cancel` is called if it is cancelled, even before its first step.

        `on_answer` is called before that, or as soon as the claim is answered.
        """
        task = asyncio.get_running_loop().create_task(claim)
        self.running[task] = time.monotonic(), on_answer
        task.add_done_callback(partial(self._end, on_cancel))
        return task

    def note_answer(self, task: asyncio.Task[Any] | None) -> None:
        """Count a claim as answered, once, so that another one can be made."""
        if task in self.running:
            _, on_answer = self.running.pop(task)
            self.answers += 1
            if on_answer is not None:
                on_answer()

    async def wait(self) -> None:
        """Wait until the claims under way, if any, have ended."""
        if self.running:
            await asyncio.wait([*self.running])

    def _end(self, on_cancel: Callable[[], None], task: asyncio.Task[None]) -> None:
        self.note_answer(task)
        if task.cancelled():
            on_cancel()
            self.pausing = True
            asyncio.get_running_loop().call_later(PAUSE_AFTER_CANCELLATION, self._go_on)
        else:
            self._again()

    def _go_on(self) -> None:
        self.pausing = False
        self._again()


async def wait_out(answer: asyncio.Future[Answer], on_cancel: Callable[[Answer], object]) -> Answer:
    """Wait for an answer that must not be dropped. A cancellation is raised after `on_cancel` got the answer."""
    cancelled: asyncio.CancelledError | None = None
    while not answer.done():
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return answer.result()
    if answer.exception() is None:
        on_cancel(answer.result())
    raise cancelled
