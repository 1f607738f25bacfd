"""The slots of a worker over all its queues, if `total` limits them, and how many jobs it may claim in its life."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from standfast.errors import ConfigurationError
from standfast.spine.claim_requests import QueueDemand


def check_slots(concurrency: int, total: int | None) -> None:
    """Refuse a worker without slots."""
    if concurrency < 1:
        raise ConfigurationError(f"concurrency must be at least 1 slot per queue, not {concurrency!r}")
    if total is not None and total < 1:
        raise ConfigurationError(f"total must be at least 1 slot over all queues, not {total!r}")


class TotalSlots:
    """Shares the free slots among queues. While they are few, the queue that got slots longest ago comes first."""

    def __init__(self, slots: int | None) -> None:
        self._slots = inf if slots is None else slots
        self._most = inf
        self.limited = slots is not None
        """Whether there is a limit at all."""
        self.claimed = 0
        self.freed = 0
        """How many of the slots that claimed jobs took are free again."""
        self._asked: dict[str, int] = {}
        self._turn = 0

    def end_after(self, jobs: int) -> None:
        """Limit how many jobs this process claims: then it starts anew."""
        self._most, self.limited = jobs, True

    @property
    def at_its_end(self) -> bool:
        """Whether this process may claim no more jobs."""
        return self.claimed >= self._most

    def share(self, demands: Sequence[QueueDemand]) -> list[QueueDemand]:
        """Cut demands down to the free slots; a queue that gets none is left out, and comes first next time."""
        free = min(self._slots + self.freed, self._most) - self.claimed
        left = int(min(free, sum(demand.slots for demand in demands)))
        if left <= 0:
            return []
        self._turn += 1
        first = sorted(demands, key=lambda demand: self._asked.get(demand.queue, 0))[:left]
        shared = []
        for place, demand in enumerate(first):
            slots = min(demand.slots, left // (len(first) - place))
            left -= slots
            shared.append(replace(demand, slots=slots))
            self._asked[demand.queue] = self._turn
        return shared
