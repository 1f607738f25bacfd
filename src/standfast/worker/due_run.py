"""Runs due jobs until none is left: for tests (`run_all_due`), and for `standfast worker --once` (`finish_due`)."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import partial

from standfast.worker.claimer import Claimer
from standfast.worker.executor import Executor
from standfast.worker.redriver import Redriver
from standfast.worker.suspects import Suspects

LOOK_AGAIN = 0.01
"""Seconds between two checks whether a worker has anything left to claim or to run."""


async def run_all_due(
    claimer: Claimer, executor: Executor, redriver: Redriver, at_once: int | None = None
) -> Counter[str]:
    """Run the due jobs, and those that replays and redrives make due; leave jobs that are due later."""
    run = partial(claimer.claim_until_empty, executor.idle, at_once)
    ran = await run()
    while True:
        latest = await run() if await _drives(redriver) else None
        if not latest:
            return ran
        ran += latest


async def finish_due(claimer: Claimer, executor: Executor, redriver: Redriver, suspects: Suspects) -> None:
    """Run the due jobs, and those they make due, with a claimer that keeps to its slots."""
    before = -1
    while executor.ends.ended != before:
        before = executor.ends.ended
        await _drives(redriver)
        claimer.look_everywhere()
        while not claimer.is_sated or suspects.busy or not await executor.idle(LOOK_AGAIN):  # noqa: ASYNC110 - three facts
            await asyncio.sleep(LOOK_AGAIN)


async def _drives(redriver: Redriver) -> bool:
    """Advance replays and redrives; return whether that made any job due."""
    replayed = await redriver.replays_due()
    redriving = await redriver.drive(f"drain-{os.getpid()}")  # under this name the next run continues it
    return bool(replayed or redriving)
