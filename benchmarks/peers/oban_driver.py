"""Oban for Python, embedded, on uvloop like its command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from oban import Oban, worker
from oban.schema import install

LOOP = uvloop.new_event_loop
QUEUE = "bench"
POOL = 20
LIMIT = 500
"""Jobs at once: like standfast's slots, since no-op jobs are limited by transactions."""


@worker(queue=QUEUE)
class Bench:
    """Passes each payload to the measurement."""

    handle: Any = None

    async def process(self, job: Any) -> None:
        """Run one job."""
        Bench.handle(job.args)


class Peer:
    """Jobs are made by the worker's class and enqueued through an instance."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None
        self._client: Any = None

    async def install(self) -> None:
        """Create the tables."""
        await install(self._pool)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Enqueue as a client, which runs no queues."""
        self._pool = await Oban.create_pool(self._url, min_size=POOL, max_size=POOL)
        self._client = Oban(pool=self._pool, name="client")
        try:
            yield
        finally:
            await self._pool.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """Enqueue one job."""
        await self._client.enqueue(_job(payload))

    async def enqueue_many(self, payloads: list[dict[str, Any]]) -> None:
        """Enqueue jobs with one statement."""
        await self._client.enqueue_many(_job(payload) for payload in payloads)

    @asynccontextmanager
    async def working(self, handle: Any) -> AsyncIterator[None]:
        """Run the queue."""
        Bench.handle = staticmethod(handle)
        async with Oban(pool=self._pool, queues={QUEUE: LIMIT}):
            yield


def _job(payload: dict[str, Any]) -> Any:
    return Bench.new(payload)  # type: ignore[attr-defined]  # the decorator makes it
