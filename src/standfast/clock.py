"""Time, as an argument: what becomes of a job is decided by no other clock.

Only waiting is measured elsewhere, where it is done and on the monotonic clock: timeouts, deadlines of calls, pauses.
Queue time counts seconds since boot plus an offset the store keeps per boot, so a wall clock that jumps
either way neither revives leases, nor reorders, nor stalls. Only `at`, `expires` and cron go through wall time.
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
"""What macOS and FreeBSD call it. The time of the boot would not do: it moves whenever the wall clock is set."""
UNKNOWN_BOOT = "unknown"
"""The boot of a machine that names none: two of them are told apart only by the time since boot, which fell."""


class Clock(Protocol):
    """What the store and the worker need of time."""

    def elapsed(self) -> float:
        """Seconds since boot, suspend included; never falls while the machine is up."""

    def wall(self) -> float:
        """Seconds since 1970, as the machine believes them now."""

    def boot(self) -> str:
        """Identify this boot: another value means every process of before is gone."""

    def of_server(self, server_time: float) -> float:
        """Give the queue time where a server tells its own time, in seconds since 1970."""


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
    """Seconds since boot, suspend included."""
    wall = staticmethod(time.time)
    """Seconds since 1970."""

    def __init__(self) -> None:
        self._boot = boot_id()

    def boot(self) -> str:
        """Give the kernel's boot id."""
        return self._boot

    def of_server(self, server_time: float) -> float:
        """Believe the server: its clock is the one that all hosts share."""
        return server_time
