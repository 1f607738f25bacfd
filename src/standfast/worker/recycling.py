"""Decides when a worker process has done enough: it finishes the jobs it has begun, and starts anew."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import msgspec

from standfast.printable import count_of, data_size

log = logging.getLogger("standfast.worker")

EVERY = 0.2
"""Seconds between two checks."""
STATM = Path("/proc/self/statm")


class Recycling(msgspec.Struct, frozen=True, kw_only=True):
    """After how many claimed jobs, or above how many bytes of memory, a process starts anew."""

    after: int | None = None
    above: int | None = None

    def __bool__(self) -> bool:
        return self.after is not None or self.above is not None

    def checked_at_start(self) -> Recycling:
        """Drop a memory limit that the process exceeds before its first job: it would restart forever."""
        if self.above is None or (taken := memory_taken()) <= self.above:
            return self
        log.warning(
            "this worker takes %s before its first job, more than --recycle-above: that limit is not kept",
            data_size(taken),
        )
        return Recycling(after=self.after)

    def why_now(self, claimed: int) -> str | None:
        """Return why it is time to start anew after `claimed` jobs; None if it is not."""
        if self.after is not None and claimed >= self.after:
            return f"it has claimed {count_of(claimed, 'job')}"
        if self.above is not None and (taken := memory_taken()) > self.above:
            return f"it takes {data_size(taken)} of memory"
        return None


def memory_taken() -> int:
    """Return how many bytes of memory this process uses; its peak so far if only that is known."""
    import resource  # noqa: PLC0415 - not on every system, and few processes need it

    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
