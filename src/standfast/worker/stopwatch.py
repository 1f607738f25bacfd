"""Counts how long jobs waited and attempts took; the next heartbeat writes the counts to the store."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from standfast.timing import BOUNDS, Timing
from standfast.wings.health.timings import Counted

GIVEN_UP = 1800.0
"""Seconds without a beat after which a worker counts from zero: another one may have summed up what it wrote."""


class Stopwatch:
    """What one worker counted. The event loop counts, and the heartbeat's thread reads."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._part = 0
        self._queues: defaultdict[str, Timing] = defaultdict(Timing)
        self._changed: set[str] = set()
        self._sending: set[str] = set()
        """The queues in a beat that may not have reached the store."""
        self._written_at: float | None = None

    def waited(self, waits: Iterable[tuple[str, float]]) -> None:
        """Count how long jobs were due before they were claimed, each given with its queue."""
        for queue, seconds in waits:
            timing = self._queues[queue]
            timing.waits[bisect_left(BOUNDS, seconds)] += 1
            timing.waited += max(0.0, seconds)  # clocks of two hosts differ
            self._changed.add(queue)

    def ran(self, runs: Iterable[tuple[str, float]]) -> None:
        """Count how long attempts took, each given with its queue."""
        for queue, seconds in runs:
            timing = self._queues[queue]
            timing.runs[bisect_left(BOUNDS, seconds)] += 1
            timing.ran += seconds
            self._changed.add(queue)

    def take(self, now: float) -> Counted:
        """Return the counts to write."""
        if self._written_at is not None and now - self._written_at > GIVEN_UP:
            self._part, self._queues, self._written_at = self._part + 1, defaultdict(Timing), None
        changed, self._changed = self._changed, set()
        self._sending |= changed
        return Counted(self._owner, self._part, {queue: self._queues[queue] for queue in self._sending})

    def confirm(self, now: float) -> None:
        """Note that the counts were written."""
        self._sending, self._written_at = set(), now
