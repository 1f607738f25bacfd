"""The one shape of every background loop: wait, do, guard, stop twice safely."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

log = logging.getLogger("standfast.worker")


class Loop:
    """Does something every so many seconds until stopped. A failure is counted, logged, and tried again."""

    def __init__(self, name: str, every: float, do: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._every = every
        self._do = do
        self._task: asyncio.Task[None] | None = None
        self.failures = 0

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

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self._do()
            except Exception:
                self.failures += 1
                log.exception("the %s failed (%d times so far) and will try again", self._name, self.failures)
