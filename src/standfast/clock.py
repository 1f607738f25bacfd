"""Time as an argument: no other clock decides what becomes of a job.

Only waiting is measured elsewhere, in place and on the monotonic clock: timeouts, deadlines of calls, pauses. Queue
time counts seconds since boot plus an offset that the store keeps for each boot, so a wall clock that jumps in either
direction neither revives leases, nor reorders jobs, nor stalls them. Only `at`, `expires` and cron use wall time.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from standfast.portable import seconds_since_boot

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SYSCTLS = ("kern.bootsessionuuid", "kern.boot_id")
"""What macOS and FreeBSD call it. The time of the boot is no substitute: it moves whenever the wall clock is set."""
UNKNOWN_BOOT = "unknown"
"""The boot of a machine that does not name its boots. Two are told apart only by the time since boot, which falls."""


class Clock(Protocol):
    """What the store and the worker need to know about time."""

    def elapsed(self) -> float:
        """Seconds since boot, including suspend; never falls while the machine is up."""

    def wall(self) -> float:
        """Seconds since 1970, as the machine believes now."""

    def boot(self) -> str:
        """Identify this boot: if it changes, every earlier process is gone."""

    def of_server(self, server_time: float) -> float:
        """Return the queue time for a server's own time, in seconds since 1970."""


def boot_id() -> str:
    """Ask the kernel which boot this is."""
    if BOOT_ID.exists():
        return BOOT_ID.read_text().strip()
    for name in SYSCTLS:
        with suppress(OSError, subprocess.SubprocessError):
            answer = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=True, timeout=5)  # noqa: S603, S607 - both names are ours
            if answer.stdout.strip():
                return answer.stdout.strip()
    return UNKNOWN_BOOT


class SystemClock:
    """The machine's clocks."""

    elapsed = staticmethod(seconds_since_boot)
    """Seconds since boot, including suspend."""
    wall = staticmethod(time.time)
    """Seconds since 1970."""

    def __init__(self) -> None:
        self._boot = boot_id()

    def boot(self) -> str:
        """Return the kernel's boot id."""
        return self._boot

    def of_server(self, server_time: float) -> float:
        """Trust the server: its clock is the one that all hosts share."""
        return server_time
