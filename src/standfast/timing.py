"""How long attempts of one queue waited and took, counted in buckets."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""The upper end of each bucket, in seconds; one more holds what took longer."""


class Timing(msgspec.Struct):
    """Counts of a queue: how long its jobs were due before they were claimed, and how long its handlers ran."""

    waits: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    waited: float = 0.0
    runs: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    ran: float = 0.0

    def plus(self, other: Timing) -> Timing:
        """Add up two; another version may have counted in other buckets, and then knows no better than these."""
        return Timing(
            waits=_sums(self.waits, other.waits),
            waited=self.waited + other.waited,
            runs=_sums(self.runs, other.runs),
            ran=self.ran + other.ran,
        )


def _sums(one: list[int], other: list[int]) -> list[int]:
    return [sum(pair) for pair in zip_longest(one, other, fillvalue=0)]
