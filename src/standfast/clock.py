"""Time, as an argument. Nothing else in the package reads a clock.

Queue time counts seconds since boot plus an offset the store keeps per boot, so a wall clock that jumps
either way neither revives leases, nor reorders, nor stalls. Only `at`, `expires` and cron go through wall time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What the store and the worker need of time."""

    def elapsed(self) -> float:
        """Seconds since boot, suspend included; never falls while the machine is up."""

    def wall(self) -> float:
        """Seconds since 1970, as the machine believes them now."""

    def boot(self) -> str:
        """Identify this boot: another value means every process of before is gone."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else "unknown"

    def elapsed(self) -> float:
        """Seconds since boot, suspend included."""
        return time.clock_gettime(self._clock_id)

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def boot(self) -> str:
        """Give the kernel's boot id."""
        return self._boot
