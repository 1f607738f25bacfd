"""Work a store off with a live worker, while its clock is moved on."""

from __future__ import annotations

import asyncio

from standfast import Standfast
from standfast.testing import FrozenClock
from tests.stores.looking import Look, ends

SWEEP = 0.3
"""Seconds: a little less than a worker of the application lets pass between two looks at others' leases."""
STRIDE = 20
HORIZON = 500
"""Seconds of the store's time until nothing more happens by itself."""
LOOK_EVERY = 0.2
STABLE = 5.0
"""Seconds without a change after which nothing more happens now: a worker looks at everything every two."""


async def work_off(sf: Standfast, clock: FrozenClock, known: Look, expected: Look | None = None) -> Look:
    """Work until it is as expected, or until nothing changes any more; give how the jobs that were known ended."""
    async with sf.worker():
        await _take_over(sf, clock, known)
        for _ in range(HORIZON // STRIDE):
            clock.advance(STRIDE)
            if await _stands(sf, known) == expected:
                break
            await asyncio.sleep(LOOK_EVERY)
        return await _stable(sf, known, expected)


async def _take_over(sf: Standfast, clock: FrozenClock, known: Look) -> None:
    """Wait until nothing is held by a worker that is gone. A sweeper does that only where time passes evenly."""
    clock.advance(STRIDE)
    for _ in range(int(2 * STRIDE / SWEEP)):
        if not any(job["state"] == "running" for job in (await _stands(sf, known)).values()):
            return
        clock.advance(SWEEP)
        await asyncio.sleep(SWEEP)


async def _stable(sf: Standfast, known: Look, expected: Look | None) -> Look:
    """Look until it is as expected, or nothing has changed for long enough."""
    before, unchanged = await _stands(sf, known), 0.0
    while before != expected and unchanged < STABLE:
        await asyncio.sleep(LOOK_EVERY)
        now = await _stands(sf, known)
        before, unchanged = now, unchanged + LOOK_EVERY if now == before else 0.0
    return before


async def _stands(sf: Standfast, known: Look) -> Look:
    return {job_id: end for job_id, end in (await ends(sf)).items() if job_id in known}
