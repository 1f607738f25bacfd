"""The product's stores that the bench works on: fresh ones for one step, and standing ones with a backlog."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from standfast.application import Standfast
from standfast.bench.probes import Probes
from standfast.bench.sizes import BULK, PAYLOAD

BACKLOG = "backlog"
"""The queue in which a standing backlog waits."""
WORK = "work"
"""The queue that is filled and emptied beside it."""
PROBE = "probe"
"""The queue of lone jobs whose start is timed."""

Say = Callable[[str], None]


class BenchStore:
    """One store, held open by the parent, as a program that enqueues would."""

    def __init__(self, directory: Path) -> None:
        self.url = str(directory / "queue.db")
        self.sf = Standfast(self.url)
        self.probes = Probes()
        self.sf.handler(PROBE)(self.probes.note)

    async def fill(self, queue: str, jobs: int, say: Say | None = None) -> None:
        """Enqueue so many jobs in bulk."""
        done = 0
        while done < jobs:
            size = min(BULK, jobs - done)
            await self.sf.enqueue_many(queue, [PAYLOAD] * size)
            done += size
            if say is not None:
                say(f"filling a backlog: {done:,} of {jobs:,}")


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[BenchStore]:
    """Give an empty store in a directory of its own, and delete both afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="store-", dir=place))
    store = BenchStore(directory)
    try:
        async with store.sf:
            yield store
    finally:
        shutil.rmtree(directory)


@asynccontextmanager
async def standing(place: Path, waiting: int, say: Say) -> AsyncIterator[BenchStore]:
    """Give a store in which so many jobs wait."""
    async with opened(place) as store:
        await store.fill(BACKLOG, waiting, say)
        yield store
