"""standfast as a contestant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from standfast.bench import draining, enqueueing, starting
from standfast.bench.figure import Figures
from standfast.bench.postgres.bench_server import Server, analyze
from standfast.bench.sizes import Sizes
from standfast.bench.stores import WORK, BenchStore, Say, fill_backlog

TITLE = "standfast"


class Product:
    """standfast: this process opens the store, as a program that enqueues would; workers are separate processes."""

    title = TITLE

    def __init__(self, server: Server) -> None:
        self._server = server

    async def enqueues(self, url: str, sizes: Sizes) -> Figures:
        """Enqueue from one caller, from 64 and in bulk."""
        async with self._opened(url) as store:
            return {
                "enqueue_one": await enqueueing.one_caller(store.sf, WORK, sizes.one_at_a_time, sizes.seconds),
                "enqueue_64": await enqueueing.many_callers(store.sf, WORK, sizes.by_callers, sizes.seconds),
                "bulk": await enqueueing.bulk(store.sf, WORK, sizes.by_bulk, sizes.seconds),
            }

    async def drains(self, url: str, sizes: Sizes) -> Figures:
        """Drain to empty."""
        async with self._opened(url) as store:
            await store.fill(WORK, sizes.drained)
            analyze(url)
            return {"drain": await draining.from_start_to_start(store, WORK, sizes.drained, sizes.seconds)}

    async def starts(self, url: str, sizes: Sizes) -> Figures:
        """Time the starts of lone jobs."""
        async with self._opened(url) as store:
            inside = await starting.in_the_process(store, sizes)
            return inside | await starting.across_processes(store, sizes)

    @asynccontextmanager
    async def with_backlog(self, waiting: int, sizes: Sizes, say: Say) -> AsyncIterator[BenchStore]:
        """Yield a store in which this many jobs wait."""
        with self._server.database() as url:
            async with self._opened(url) as store:
                await fill_backlog(store, waiting, sizes.fill_seconds, say)
                analyze(url)
                yield store

    @asynccontextmanager
    async def _opened(self, url: str) -> AsyncIterator[BenchStore]:
        store = BenchStore(self._server.for_product(url))
        async with store.sf:
            yield store
