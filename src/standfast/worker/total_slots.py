"""The slots of a worker over all its queues, where `total` limits them, and how many jobs it may still claim."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

from msgspec.structs import replace

from standfast.spine.claim_requests import QueueDemand

PLENTY = maxsize // 2
"""More than a process can take while it lives."""


class TotalSlots:
    """Shares the free slots among queues. While they are few, the queue that was asked longest ago comes first."""

    def __init__(self, slots: int | None) -> None:
        self.free = maxsize if slots is None else slots
        self.claims_left = maxsize
        """How many more jobs this process claims before it starts anew."""
        self.claimed = 0
        self._asked: dict[str, int] = {}
        self._turn = 0

    def note_claimed(self, jobs: int) -> None:
        """Take note of slots that are taken."""
        self.free -= jobs
        self.claims_left -= jobs
        self.claimed += jobs

    def share(self, demands: Sequence[QueueDemand]) -> Sequence[QueueDemand]:
        """Cut demands down to what is free; a queue that gets nothing is left out, and comes first next time."""
        free = min(self.free, self.claims_left)
        if free <= 0:
            return ()
        if free > PLENTY:
            return demands
        self._turn += 1
        first = sorted(demands, key=lambda demand: self._asked.get(demand.queue, 0))[:free]
        left, shared = free, []
        for place, demand in enumerate(first):
            slots = min(demand.slots, left // (len(first) - place))
            left -= slots
            shared.append(replace(demand, slots=slots))
            self._asked[demand.queue] = self._turn
        return shared
