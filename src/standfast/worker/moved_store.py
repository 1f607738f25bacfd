"""A worker whose store was promoted: it says so once and claims no more, and its process ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from standfast.concurrency.loops import Loop
from standfast.concurrency.store_moved import tell_moved
from standfast.concurrency.threads import run_in_thread
from standfast.errors import StoreMoved, StoreUnavailable
from standfast.worker.claimer import Claimer
from standfast.worker.heartbeat import Heartbeat

log = logging.getLogger("standfast.worker")


class MovedStore:
    """Where the store is now, once a worker learns that it has moved. An application around the worker goes on."""

    def __init__(self) -> None:
        self.to: str | None = None
        """The store's new address; None while it has not moved."""
        self._came = asyncio.Event()
        self._worker: tuple[Claimer, Heartbeat, Sequence[Loop]] | None = None
        self._stopping: asyncio.Task[None] | None = None

    def stops(self, claimer: Claimer, heartbeat: Heartbeat, loops: Sequence[Loop]) -> None:
        """Set what stops once the store has moved."""
        self._worker = claimer, heartbeat, loops

    async def came(self) -> None:
        """Wait until the store has moved."""
        await self._came.wait()

    def refused(self, error: StoreUnavailable) -> None:
        """Log why nothing can be claimed; if the store has moved, stop."""
        if isinstance(error, StoreMoved):
            self._note(error)
        else:
            log.warning("nothing can be claimed now: %s", error)

    def watched(self, look: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Return a look at the store that notices when it has moved."""

        async def watching() -> None:
            try:
                await look()
            except StoreMoved as error:
                self._note(error)

        return watching

    def _note(self, error: StoreMoved) -> None:
        if self.to is not None:
            return
        self.to = error.home
        tell_moved(error)
        self._came.set()
        if self._worker is not None:
            self._worker[0].halt()
            self._stopping = asyncio.get_running_loop().create_task(self._stop(*self._worker[1:]))

    async def _stop(self, heartbeat: Heartbeat, loops: Sequence[Loop]) -> None:
        """Stop what would ask the old store again and again; a drain does the rest."""
        for loop in loops:
            await loop.stop()
        await run_in_thread(heartbeat.stop)
