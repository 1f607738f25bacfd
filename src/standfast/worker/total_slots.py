"""The slots of a worker over all its queues, where `total` limits them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from standfast.spine.claim_requests import QueueDemand


class TotalSlots:
    """Shares the free slots among queues. While they are few, the queue that was asked longest ago comes first."""

    def __init__(self, slots: int) -> None:
        self.free = slots
        self._asked: dict[str, int] = {}
        self._turn = 0

    def share(self, demands: Sequence[QueueDemand]) -> list[QueueDemand]:
        """Cut demands down to what is free; a queue that gets nothing is left out, and comes first next time."""
        if self.free <= 0:
            return []
        self._turn += 1
        first = sorted(demands, key=lambda demand: self._asked.get(demand.queue, 0))[: self.free]
        left, shared = self.free, []
        for place, demand in enumerate(first):
            slots = min(demand.slots, left // (len(first) - place))
            left -= slots
            shared.append(replace(demand, slots=slots))
            self._asked[demand.queue] = self._turn
        return shared
