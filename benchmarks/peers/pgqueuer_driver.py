"""PgQueuer, on asyncpg pools and uvloop, as in its performance guide and its command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

LOOP = uvloop.new_event_loop
ENTRYPOINT = "bench"
POOL = 20
CONSUMERS = 5
"""The number in PgQueuer's own benchmark, all in one process."""
BATCH = 100
"""Ten times that benchmark's size, which is faster: its guide says to increase it for short jobs."""


class Peer:
    """Jobs are bytes here: the payload's JSON."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._queries: Any = None

    async def install(self) -> None:
        """Create the tables, and set autovacuum as the guide recommends."""
        await self._queries.install()
        await self._queries.optimize_autovacuum()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Enqueue through a pool."""
        async with asyncpg.create_pool(self._url, min_size=POOL, max_size=POOL) as pool:
            self._queries = Queries(AsyncpgPoolDriver(pool))
            yield

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """Enqueue one job."""
        await self._queries.enqueue(ENTRYPOINT, _encode(payload))

    async def enqueue_many(self, payloads: list[dict[str, Any]]) -> None:
        """Enqueue jobs with one statement."""
        texts = [_encode(payload) for payload in payloads]
        await self._queries.enqueue([ENTRYPOINT] * len(texts), texts, [0] * len(texts))

    @asynccontextmanager
    async def working(self, handle: Any) -> AsyncIterator[None]:
        """Run consumers, each on a connection of its own."""
        connections = [await asyncpg.connect(self._url) for _ in range(CONSUMERS)]
        consumers = [_consumer(connection, handle) for connection in connections]
        running = [asyncio.create_task(consumer.run(batch_size=BATCH)) for consumer in consumers]
        try:
            yield
        finally:
            for consumer in consumers:
                consumer.shutdown.set()
            await asyncio.gather(*running)
            await asyncio.gather(*(connection.close() for connection in connections))


def _consumer(connection: Any, handle: Any) -> Any:
    consumer = PgQueuer(AsyncpgDriver(connection))

    @consumer.entrypoint(ENTRYPOINT)
    async def run(job: Any) -> None:
        handle(json.loads(job.payload))

    return consumer


def _encode(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, separators=(",", ":")).encode()
