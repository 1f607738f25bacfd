"""What a feature costs the jobs that use it, compared with a plain job: enqueued, run and completed in one process."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

from standfast.application import Standfast
from standfast.bench.figure import Figure, Figures
from standfast.bench.sizes import CALLERS, PAYLOAD
from standfast.wings.effects.handler_job import Job
from standfast.wings.effects.words import Effect

PLAIN = "plain"
FEATURES = {
    "key": "an idempotency key",
    "thread": "a thread key",
    "limit": "a concurrency limit",
    "session": "a session",
    "effect": "a declared effect",
}
"""Each feature, as the table names it."""


async def one_by_one(sf: Standfast, jobs: int) -> Figures:
    """Measure plain jobs, and as many jobs with each feature."""
    run = Run(sf)
    return {f"feature_{name}": await run.measure(name, jobs) for name in (PLAIN, *FEATURES)}


class Run:
    """Enqueues jobs of one kind at a time, and counts how many ran."""

    def __init__(self, sf: Standfast) -> None:
        self._sf = sf
        self._numbers = itertools.count()
        self._left = 0
        self._done = asyncio.Event()
        sf.queue(_queue("limit"), concurrency=10 * CALLERS)
        for name in (PLAIN, *FEATURES):
            if name == "effect":
                sf.handler(_queue(name), effects=[Effect("noted")])(self._have_an_effect)
            else:
                sf.handler(_queue(name))(self._count)

    async def measure(self, name: str, jobs: int) -> Figure:
        """Time jobs from the first enqueue until the worker has stopped: by then every end is on disk."""
        self._left = rest = jobs
        self._done.clear()
        began = time.perf_counter()
        async with self._sf.worker([_queue(name)]):
            while rest > 0:
                some = min(rest, CALLERS)
                await asyncio.gather(*(self._enqueue(name) for _ in range(some)))
                rest -= some
            await self._done.wait()
        took = time.perf_counter() - began
        return Figure(jobs / took, jobs, took)

    async def _enqueue(self, name: str) -> None:
        number = next(self._numbers)
        options: dict[str, dict[str, Any]] = {
            "key": {"idempotency_key": f"key-{number}"},
            "thread": {"thread_key": f"thread-{number}"},
            "session": {"session": f"session-{number % 8}"},
        }
        await self._sf.enqueue(_queue(name), PAYLOAD, **options.get(name, {}))

    async def _count(self, _job: Job) -> None:
        self._left -= 1
        if not self._left:
            self._done.set()

    async def _have_an_effect(self, job: Job) -> None:
        async with job.effect("noted") as effect:
            effect.record("done")
        await self._count(job)


def _queue(name: str) -> str:
    return f"bench-{name}"
