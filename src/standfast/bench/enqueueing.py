"""Durable enqueues: one caller, 64 callers, bulk."""

from __future__ import annotations

import asyncio

from standfast.application import Standfast
from standfast.bench.figure import Budget, Figure
from standfast.bench.sizes import BULK, CALLERS, PAYLOAD


async def one_caller(sf: Standfast, queue: str, most: int, seconds: float) -> Figure:
    """Enqueue one job after the other, each awaited."""
    budget = Budget(most, seconds)
    await _call(sf, queue, budget)
    return budget.rate()


async def many_callers(sf: Standfast, queue: str, most: int, seconds: float) -> Figure:
    """Let 64 tasks each enqueue one job after the other."""
    budget = Budget(most, seconds)
    await asyncio.gather(*(_call(sf, queue, budget) for _ in range(CALLERS)))
    return budget.rate()


async def _call(sf: Standfast, queue: str, budget: Budget) -> None:
    while budget.take():
        await sf.enqueue(queue, PAYLOAD)


async def bulk(sf: Standfast, queue: str, most: int, seconds: float) -> Figure:
    """Enqueue 1 000 jobs at a time."""
    budget = Budget(most, seconds)
    payloads = [PAYLOAD] * BULK
    while budget.take(BULK):
        await sf.enqueue_many(queue, payloads)
    return budget.rate()
