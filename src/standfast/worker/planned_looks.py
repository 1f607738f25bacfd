"""Timers that make a worker look again at a queue whose next job is due later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PlannedLooks:
    """One timer for each queue, set for the earliest look that was planned."""

    def __init__(self, look: Callable[[dict[str, float]], None]) -> None:
        self._look = look
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def plan(self, queue: str, seconds: float) -> None:
        """Look at a queue after this many seconds, unless an earlier look is planned."""
        loop = asyncio.get_running_loop()
        planned = self._timers.get(queue)
        if planned is not None and not planned.cancelled() and loop.time() < planned.when() <= loop.time() + seconds:
            return
        if planned is not None:
            planned.cancel()
        self._timers[queue] = loop.call_later(seconds, self._look, {queue: 0.0})

    def cancel(self) -> None:
        """Cancel every planned look."""
        for timer in self._timers.values():
            timer.cancel()
