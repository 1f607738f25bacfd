"""Procrastinate, with its asynchronous connector and a concurrent worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from procrastinate import App, PsycopgConnector

QUEUE = "bench"
POOL = 20
CONCURRENCY = 30
"""Jobs at once, as in the documentation's example."""


class Peer:
    """Jobs are calls of a task; the payload is its keyword arguments."""

    def __init__(self, url: str) -> None:
        self._app = App(connector=PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))
        self._handle: Any = None
        self._task = self._app.task(name="bench", queue=QUEUE)(self._run)

    async def _run(self, **payload: Any) -> None:
        self._handle(payload)

    async def install(self) -> None:
        """Create the tables."""
        await self._app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the pool."""
        async with self._app.open_async():
            yield

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """Defer one job."""
        await self._task.defer_async(**payload)

    async def enqueue_many(self, payloads: list[dict[str, Any]]) -> None:
        """Defer jobs with one statement."""
        await self._task.batch_defer_async(*payloads)

    @asynccontextmanager
    async def working(self, handle: Any) -> AsyncIterator[None]:
        """Run the worker until it is no longer needed."""
        self._handle = handle
        work = self._app.run_worker_async(queues=[QUEUE], concurrency=CONCURRENCY, install_signal_handlers=False)
        running = asyncio.create_task(work)
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
