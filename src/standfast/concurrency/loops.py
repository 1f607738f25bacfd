"""The one shape of every background loop: wait, do, guard, stop twice safely."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

log = logging.getLogger("standfast.worker")


class Guard:
    """Keeps a task going that may fail unexpectedly: a failure is counted, logged, and tried again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.failures = 0

    async def run(self, do: Callable[[], Awaitable[None]]) -> bool:
        """Do it; tell whether that went well."""
        try:
            await do()
        except Exception:
            self.failures += 1
            log.exception("the %s failed (%d times so far) and will try again", self._name, self.failures)
            return False
        return True


class Loop:
    """Does something every so many seconds until stopped."""

    def __init__(self, name: str, every: float, do: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._every = every
        self._do = do
        self._task: asyncio.Task[None] | None = None
        self._guard = Guard(name)

    @property
    def failures(self) -> int:
        """How often it failed so far."""
        return self._guard.failures

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.create_task(self._run(), name=f"standfast-{self._name}")

    async def stop(self) -> None:
        """End; calling it again does nothing."""
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
