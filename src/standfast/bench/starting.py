"""How long a lone job takes from the call that enqueues it to the first line of its handler."""

from __future__ import annotations

import asyncio
import random
import time

from standfast.application import Standfast
from standfast.bench.bench_children import child
from standfast.bench.child import BenchTask
from standfast.bench.figure import Figure, Figures
from standfast.bench.sizes import PAYLOAD, Sizes
from standfast.bench.stores import PROBE, BenchStore

SHORTEST_PAUSE = 0.005
"""Long enough for the previous job to be settled, so that the system is idle again."""
UNCOUNTED = 3
"""Probes that warm up code which has not run before."""


async def in_the_process(store: BenchStore, sizes: Sizes) -> Figures:
    """Enqueue and run in this process."""
    async with store.sf.worker([PROBE]):
        calls = await _probe(store.sf, sizes)
        starts = await store.probes.wait(len(calls))
    return start_figures("start_inside", calls, starts, sizes)


async def across_processes(store: BenchStore, sizes: Sizes) -> Figures:
    """Enqueue here, run in another process. Both read the same monotonic clock."""
    order = BenchTask(program="probe", url=store.url, queue=PROBE, seconds=sizes.seconds)
    async with child(order) as worker:
        await worker.answer(str)
        calls = await _probe(store.sf, sizes)
        await worker.say(len(calls))
        starts = await worker.answer(dict[int, float])
    return start_figures("start_across", calls, starts, sizes)


async def _probe(sf: Standfast, sizes: Sizes) -> list[float]:
    """Enqueue lone jobs, each after a random pause; return when each call was made."""
    calls: list[float] = []
    ends = time.monotonic() + sizes.seconds
    while len(calls) < sizes.probes + UNCOUNTED and time.monotonic() < ends:
        await asyncio.sleep(random.uniform(SHORTEST_PAUSE, sizes.longest_pause))  # noqa: S311 - a pause is no secret
        payload = {**PAYLOAD, "probe": len(calls)}
        calls.append(time.monotonic())
        await sf.enqueue(PROBE, payload)
    return calls


def start_figures(name: str, calls: list[float], starts: dict[int, float], sizes: Sizes) -> Figures:
    """Return the median and the 99th percentile, in milliseconds."""
    missing = len(calls) - len(starts)
    if missing:
        raise RuntimeError(f"{missing} of {len(calls)} probes never started: is the machine stuck?")
    waits = sorted((starts[number] - called) * 1e3 for number, called in enumerate(calls) if number >= UNCOUNTED)
    seconds = calls[-1] - calls[0]
    cut = len(waits) < sizes.probes
    return {
        f"{name}_p50": Figure(_at(waits, 0.5), len(waits), seconds, cut=cut),
        f"{name}_p99": Figure(_at(waits, 0.99), len(waits), seconds, cut=cut),
    }


def _at(ordered: list[float], share: float) -> float:
    return ordered[round((len(ordered) - 1) * share)]
