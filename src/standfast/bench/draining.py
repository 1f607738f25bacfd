"""Drains of jobs that do nothing, by a worker process."""

from __future__ import annotations

from standfast.bench.child import Drained, Order
from standfast.bench.children import ask
from standfast.bench.figure import Figure, Figures
from standfast.bench.stores import BACKLOG, BenchStore


async def _drain(store: BenchStore, queue: str, count: int, seconds: float) -> Drained:
    return await ask(Order(program="drain", url=store.url, queue=queue, count=count, seconds=seconds), Drained)


async def to_empty(store: BenchStore, queue: str, count: int, seconds: float) -> Figure:
    """Drain a queue of so many jobs to its end; timed from the first claim until the last end is on disk."""
    drained = await _drain(store, queue, count, seconds)
    return _figure(drained, drained.ran, drained.seconds)


async def from_backlog(store: BenchStore, count: int, seconds: float) -> Figure:
    """Take so many jobs out of a standing backlog, timed from start to start, then put as many back."""
    drained = await _drain(store, BACKLOG, count, seconds)
    await store.fill(BACKLOG, drained.ran)
    return _figure(drained, drained.steady, drained.steady_seconds)


async def watching_memory(store: BenchStore, waiting: int, seconds: float) -> Figures:
    """Drain a whole backlog, and give the memory of the worker: early, late, and at its peak, in MB."""
    drained = await _drain(store, BACKLOG, waiting, seconds)
    seen = {
        "memory_early": drained.memory_early,
        "memory_late": drained.memory_late,
        "memory_peak": drained.memory_peak,
    }
    known = {name: size for name, size in seen.items() if size is not None}
    return {name: _figure(drained, drained.ran, drained.seconds, size / 1e6) for name, size in known.items()}


def _figure(drained: Drained, jobs: int, seconds: float, value: float | None = None) -> Figure:
    rate = jobs / max(seconds, 1e-9)
    return Figure(rate if value is None else value, jobs, seconds, drained.cpu / max(1, drained.ran) * 1e6)
