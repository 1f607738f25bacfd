"""Drains of no-op jobs by a worker process."""

from __future__ import annotations

from standfast.bench.bench_children import ask
from standfast.bench.child import BenchTask, Drained
from standfast.bench.figure import Figure, Figures
from standfast.bench.stores import BACKLOG, BenchStore


async def _drain(store: BenchStore, queue: str, count: int, seconds: float) -> Drained:
    return await ask(BenchTask(program="drain", url=store.url, queue=queue, count=count, seconds=seconds), Drained)


async def to_empty(store: BenchStore, queue: str, count: int, seconds: float) -> Figure:
    """Drain a queue of `count` jobs completely; timed from the first claim until the last end is on disk."""
    drained = await _drain(store, queue, count, seconds)
    rate = drained.ran / drained.seconds
    return Figure(rate, drained.ran, drained.seconds, _cpu(drained), cut=drained.ran < count)


async def from_backlog(store: BenchStore, count: int, seconds: float) -> Figure:
    """Take `count` jobs out of a standing backlog, timed from first to last start, then refill it."""
    drained = await _drain(store, BACKLOG, count, seconds)
    await store.fill(BACKLOG, drained.ran)
    return _steady(drained, count)


async def from_start_to_start(store: BenchStore, queue: str, count: int, seconds: float) -> Figure:
    """Drain a queue of `count` jobs, timed from the first start to the last, which can be measured for any queue."""
    return _steady(await _drain(store, queue, count, seconds), count)


async def watching_memory(store: BenchStore, waiting: int, seconds: float) -> Figures:
    """Drain a whole backlog, and return the worker's memory: early, late, and at its peak, in MB."""
    drained = await _drain(store, BACKLOG, waiting, seconds)
    cut = drained.ran < waiting
    seen = {
        "memory_early": drained.memory_early,
        "memory_late": drained.memory_late,
        "memory_peak": drained.memory_peak,
    }
    known = {name: size for name, size in seen.items() if size is not None}
    return {name: Figure(size / 1e6, drained.ran, drained.seconds, cut=cut) for name, size in known.items()}


def _steady(drained: Drained, count: int) -> Figure:
    rate = drained.steady / max(drained.steady_seconds, 1e-9)
    return Figure(rate, drained.steady, drained.steady_seconds, _cpu(drained), cut=drained.ran < count)


def _cpu(drained: Drained) -> float:
    return drained.cpu / max(1, drained.ran) * 1e6
