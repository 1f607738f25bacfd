"""One measured figure, and the budget that limits its measurement."""

from __future__ import annotations

import time

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A value, how many jobs it was measured on, and how long that took. `cpu` is microseconds per job.

    `cut` says that the time was up before all jobs were measured.
    """

    value: float
    count: int
    seconds: float
    cpu: float | None = None
    cut: bool = False


Figures = dict[str, Figure]
"""What one step measured, by name."""


class Budget:
    """Counts and times a measurement, which is over when the count or the seconds are spent."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._done = 0
        self.start()

    def start(self) -> None:
        """Start the time now, after any preparation."""
        self._cpu = time.process_time()
        self._began = time.monotonic()
        self._ends = self._began + self._seconds

    def take(self, jobs: int = 1) -> bool:
        """Spend some jobs, if anything is left of the budget."""
        if self._done >= self._most or time.monotonic() >= self._ends:
            return False
        self._done += jobs
        return True

    def give_back(self, jobs: int) -> None:
        """Put back spent jobs that turned out not to exist."""
        self._done -= jobs

    def rate(self) -> Figure:
        """Return the jobs per second since the start."""
        seconds = time.monotonic() - self._began
        cpu = time.process_time() - self._cpu
        cut = self._done < self._most
        return Figure(self._done / seconds, self._done, seconds, cpu / max(1, self._done) * 1e6, cut)
