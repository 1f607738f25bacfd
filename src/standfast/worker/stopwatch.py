"""Counts how long jobs waited and attempts took; the heartbeat writes it down with the next beat."""

from __future__ import annotations

from collections import defaultdict

from standfast.timing import Timing
from standfast.wings.health.timings import Counted

GIVEN_UP = 1800.0
"""Seconds without a beat after which others may have added up what a worker wrote: from then on it counts anew."""


class Stopwatch:
    """What one worker counted. The loop counts, and the thread of the heartbeat reads."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._part = 0
        self._queues: defaultdict[str, Timing] = defaultdict(Timing)
        self._changed: set[str] = set()
        self._sending: set[str] = set()
        """The queues of a beat that may not have reached the store."""
        self._written_at: float | None = None

    def waited(self, queue: str, seconds: float) -> None:
        """Count a job that was due for so long when it was claimed."""
        self._queues[queue].wait(seconds if seconds > 0 else 0.0)
        self._changed.add(queue)

    def ran(self, queue: str, seconds: float) -> None:
        """Count an attempt that took so long."""
        self._queues[queue].run(seconds)
        self._changed.add(queue)

    def counted(self, now: float) -> Counted:
        """Give what is to be written."""
        if self._written_at is not None and now - self._written_at > GIVEN_UP:
            self._part, self._queues, self._written_at = self._part + 1, defaultdict(Timing), None
        changed, self._changed = self._changed, set()
        self._sending |= changed
        return Counted(self._owner, self._part, {queue: self._queues[queue] for queue in self._sending})

    def written(self, now: float) -> None:
        """Take note that it was."""
        self._sending, self._written_at = set(), now
