"""A handler that records when each of its jobs starts."""

from __future__ import annotations

import asyncio
import time

from standfast.concurrency.threads import with_timeout
from standfast.wings.effects.handler_job import Job

LONGEST_WAIT = 5.0
"""Seconds to wait for the last starts: longer than a worker's own interval for polling without a hint."""


class Probes:
    """The starts of numbered jobs, on the monotonic clock that all processes of the machine share."""

    def __init__(self) -> None:
        self.starts: dict[int, float] = {}
        self._awaited = -1
        self._complete = asyncio.Event()

    async def note(self, job: Job) -> None:
        """Record a start."""
        self.starts[job.payload["probe"]] = time.monotonic()
        if len(self.starts) == self._awaited:
            self._complete.set()

    async def wait(self, count: int) -> dict[int, float]:
        """Wait for `count` starts; return those that came, and forget them."""
        self._awaited = count
        self._complete.clear()
        if len(self.starts) < count:
            await wait_for(self._complete, LONGEST_WAIT)
        starts, self.starts = self.starts, {}
        return starts


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, but not for ever; return whether it came."""
    try:
        await with_timeout(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
