"""The cost of a worker that has nothing to do."""

from __future__ import annotations

from pathlib import Path

from standfast.bench.bench_children import ask
from standfast.bench.child import BenchTask, Idled
from standfast.bench.figure import Figure, Figures
from standfast.bench.stores import WORK, opened


async def idle(place: Path, seconds: float) -> Figures:
    """Return how much of one core an idle worker process uses, in percent."""
    async with opened(place) as store:
        idled = await ask(BenchTask(program="idle", url=store.url, queue=WORK, seconds=seconds), Idled)
    return {"idle_cpu": Figure(idled.cpu / idled.seconds * 100, 0, idled.seconds)}
