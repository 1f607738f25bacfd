"""Run enqueued work and inspect it in a test, without a worker process and without waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from standfast.application import Standfast
from standfast.testing.frozen_clock import FrozenClock
from standfast.testing.memory_transactions import TransactionsInMemory
from standfast.views import JobView

LOOKED_AT = 1000
MISSING = object()
"""Equal to nothing that a test can ask for."""


class InMemory(Standfast):
    """A queue in memory, whose clock moves only when told."""

    clock: FrozenClock


def memory(clock: FrozenClock | None = None) -> InMemory:
    """Return a queue in memory whose clock stands still: `sf.clock.advance(60)` lets time pass."""
    sf = InMemory(":memory:", clock=clock or FrozenClock())
    sf._transactions = TransactionsInMemory(sf)  # noqa: SLF001
    return sf


@asynccontextmanager
async def in_memory(sf: Standfast, clock: FrozenClock | None = None) -> AsyncIterator[FrozenClock]:
    """Put an application's own queue into memory for a block, with its rules and handlers; yield the clock.

    Everything that refers to this object works in memory meanwhile: module-level code, and its handlers' `.enqueue`.
    Its own store is not opened; start while nothing uses the queue.
    """
    stand_in = memory(clock)
    before = vars(sf).copy()
    move(sf, stand_in)
    try:
        yield stand_in.clock
    finally:
        await sf.close()
        vars(sf).update(before)


def move(sf: Standfast, home: Standfast) -> None:
    """Make a queue work on another one's store and clock, with its own rules and handlers.

    Every reference to the object is affected: module-level code, and its handlers' `.enqueue`.
    """
    home._declared.take_over(sf._declared)  # noqa: SLF001 - the kit's business, here and below
    home._registry.take_over(sf._registry)  # noqa: SLF001
    home._life.take_over(sf._life)  # noqa: SLF001
    home._middleware += sf._middleware  # noqa: SLF001
    home._declared_schedules.take_over(sf._declared_schedules)  # noqa: SLF001
    home.policy.take_over(sf.policy)
    vars(sf).update(vars(home))


async def drain(sf: Standfast) -> Counter[str]:
    """Run everything that is due, including schedule ticks, repeats and redrives; return how often each queue ran.

    Each queue runs one job after the other, by priority; jobs that take longer than a moment run side by side. Time
    does not pass by itself: a repeat with a backoff stays queued until the clock is advanced, and so does work that
    the rate of a redrive holds back.
    """
    await _bring_committed(sf)
    return await sf.worker().run_due(at_once=1)


async def assert_enqueued(sf: Standfast, queue: str, **match: object) -> JobView:
    """Return the newest job of a queue whose attributes (or payload keys) match; fail listing the existing ones."""
    await _bring_committed(sf)
    found = await sf.jobs(queue=queue, limit=LOOKED_AT)
    for job in found:
        if all(_value(job, name) == wanted for name, wanted in match.items()):
            return job
    seen = [job.payload for job in found[:10]]
    raise AssertionError(f"no job of {queue!r} matches {match}; the newest payloads are {seen}")


async def _bring_committed(sf: Standfast) -> None:
    """Relay jobs that callers committed with `tx=`."""
    transactions = sf._transactions  # noqa: SLF001
    if isinstance(transactions, TransactionsInMemory):
        await transactions.bring()


def _value(job: JobView, name: str) -> Any:
    if hasattr(job, name):
        return getattr(job, name)
    return job.payload.get(name, MISSING) if isinstance(job.payload, dict) else MISSING
