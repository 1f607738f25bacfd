"""The stores that the bench works on: fresh ones for one step, and standing ones with a backlog."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from standfast.application import Standfast
from standfast.bench.latency import Probes
from standfast.bench.sizes import BULK, PAYLOAD
from standfast.errors import ConfigurationError

BACKLOG = "bench-backlog"
"""The queue in which a standing backlog waits."""
WORK = "bench-work"
"""The queue that is filled and emptied next to it."""
PROBE = "bench-probe"
"""The queue of lone jobs whose start is timed."""

PART = 10 * BULK
"""Jobs between two progress messages while filling."""

Say = Callable[[str], None]


class BenchStore:
    """One store, kept open by the parent, as a program that enqueues would."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sf = Standfast(self.url)
        self.probes = Probes()
        for queue in (BACKLOG, WORK, PROBE):
            self.sf.queue(queue)
        self.sf.handler(PROBE)(self.probes.note)

    async def fill(self, queue: str, jobs: int) -> None:
        """Enqueue this many jobs in bulk."""
        while jobs > 0:
            await self.sf.enqueue_many(queue, [PAYLOAD] * min(BULK, jobs))
            jobs -= BULK


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[BenchStore]:
    """Yield an empty store in its own directory, and delete both afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="store-", dir=place))
    store = BenchStore(str(directory / "queue.db"))
    try:
        async with store.sf:
            yield store
    finally:
        shutil.rmtree(directory)


@asynccontextmanager
async def with_backlog(place: Path, waiting: int, seconds: float, say: Say) -> AsyncIterator[BenchStore]:
    """Yield a store in which this many jobs wait."""
    async with opened(place) as store:
        await fill_backlog(store, waiting, seconds, say)
        yield store


async def fill_backlog(store: BenchStore, waiting: int, seconds: float, say: Say) -> None:
    """Fill the backlog with jobs; refuse a disk that takes too long."""
    ends = time.monotonic() + seconds
    for done in range(0, waiting, PART):
        say(f"filling a backlog: {done:,} of {waiting:,}")
        await store.fill(BACKLOG, min(PART, waiting - done))
        if time.monotonic() > ends:
            raise ConfigurationError(f"{waiting:,} jobs take over {seconds:.0f} s here; use --quick, or another disk")
