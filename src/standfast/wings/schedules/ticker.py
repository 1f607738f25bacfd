"""Enqueues the jobs of schedules when their time comes. Any worker can do it; the first one does."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from standfast.concurrency.loops import Loop
from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError, StoreMoved, StoreUnavailable
from standfast.store.store import Store
from standfast.telemetry import Tracing
from standfast.wings.schedules import scripts as schedule_scripts
from standfast.wings.schedules.scripts import Schedule, TickDecision
from standfast.wings.schedules.ticking import decide_tick, set_back
from standfast.worker.traced_attempt import Ticks

log = logging.getLogger("standfast.worker")

LONGEST_WAIT = 10.0
"""The most seconds between two looks: hints get lost, clocks are set, and timers sleep while the machine does."""
AFTER_TROUBLE = 1.0
"""Seconds until the next look if something due could not be enqueued."""
STAGGER = 0.05
"""Seconds over which workers spread: the first one enqueues, and the others find nothing to do."""
SET_BACK = 1.0
"""A clock that falls behind by more than this many seconds was set back."""

Decide = Callable[[Schedule, float, float], TickDecision | None]


class Timetable(Loop):
    """Sleeps until the next run of all schedules, or until it hears of an earlier one."""

    def __init__(self, store: Store, roll: Callable[[], float] = random.random, tracing: Tracing | None = None) -> None:
        super().__init__("timetable", LONGEST_WAIT, self.look)
        self._store = store
        self._roll = roll
        self._tick = self._write if tracing is None else Ticks(tracing, self._write).tick
        self._news = asyncio.Event()
        self._wait = 0.0
        self._seen: tuple[float, float] | None = None
        """When it last looked, by this process's own clock, and how far wall time was ahead of that clock."""
        self._unreadable: set[str] = set()
        self._away = False

    def wake(self) -> None:
        """Look soon. Call this in the loop."""
        self._news.set()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait):
                await self._news.wait()
        self._news.clear()

    async def look(self) -> None:
        """Enqueue what is due, and find out how long to sleep."""
        self._wait = AFTER_TROUBLE
        try:
            await self.run_due()
            left = await self._store.read(schedule_scripts.until_next(*self._store.times()))
        except StoreMoved:
            raise
        except StoreUnavailable as error:
            if not self._away:
                log.warning("schedules cannot be read now, and will be tried again: %s", error)
            self._away = True
            return
        self._away = False
        self._wait = LONGEST_WAIT if left is None else min(LONGEST_WAIT, left + self._roll() * STAGGER)
        if left is not None and left <= 0:
            self._wait = AFTER_TROUBLE  # its queue is full, or another worker has it

    async def run_due(self) -> int:
        """Enqueue everything that is due; return how many schedules that was."""
        within = self._set_back_within()
        if within is not None:
            known = await self._store.read(schedule_scripts.list_schedules())
            await self._write(await self._decide_all(known, partial(set_back, within=within)))
        went = 0
        while due := await self._store.read(schedule_scripts.due(*self._store.times())):
            done = sum(await self._tick(await self._decide_all(due, decide_tick)))
            went += done
            if not done:
                break
        return went

    async def _write(self, tickings: Sequence[TickDecision]) -> list[bool]:
        """Write decisions about schedules; return which of them are done."""
        return await self._store.write_all(schedule_scripts.tick, tickings) if tickings else []

    def _set_back_within(self) -> float | None:
        """Return within how many seconds the clock was set back, or None; at the first look 0, as it may have been."""
        here = asyncio.get_running_loop().time()
        now = (here, self._store.times()[1] - here)
        before, self._seen = self._seen or (here, float("inf")), now
        return here - before[0] if now[1] < before[1] - SET_BACK else None

    async def _decide_all(self, schedules: Sequence[Schedule], decide: Decide) -> list[TickDecision]:
        """Decide in a thread: after a long time without workers there is much to count."""
        waiting = [each for each in schedules if each.following is not None and not each.paused]
        return await run_in_thread(self._decide, waiting, decide) if waiting else []

    def _decide(self, schedules: Sequence[Schedule], decide: Decide) -> list[TickDecision]:
        found = []
        now, wall = self._store.times()
        for each in schedules:
            try:
                decided = decide(each, now, wall)
            except ConfigurationError as error:
                self._leave(each, error)
                continue
            if decided is not None:
                found.append(decided)
        return found

    def _leave(self, schedule: Schedule, error: ConfigurationError) -> None:
        """Leave a schedule that cannot be computed here to other workers, as without its zone's data; log that once."""
        if schedule.spec not in self._unreadable:
            self._unreadable.add(schedule.spec)
            log.error("schedule %s cannot run here and is left to other workers: %s", schedule.name, error)
