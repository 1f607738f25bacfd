"""When a second claim stands in line behind the one that is under way.

Where claims have a writer of their own, it would wait while the jobs of one claim begin. So a queue whose last claim
was full is asked once more, as soon as there are slots for another full claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sized
from functools import partial
from operator import attrgetter

from standfast.spine.claim_requests import QueueDemand

MOST_UNDER_WAY = 2

_queue = attrgetter("queue")


class ClaimsAhead:
    """What claims `under_way` have asked for, and which queues may be asked for a full claim beside them.

    `free` are the slots of each queue, those included that are to be filled; a claim is full that brings so many.
    """

    def __init__(self, under_way: Sized, free: Counter[str], full_claim: int) -> None:
        self._under_way = under_way
        self._free = free
        self._full_claim = full_claim
        self.asked: Counter[str] = Counter()
        """The slots that claims under way are to fill, by queue."""
        self._full: set[str] = set()
        """The queues whose last claim was full."""

    def ask(self, demands: Iterable[QueueDemand]) -> Callable[[], None]:
        """Take note of a claim that is about to be made; give what must be called once it is answered."""
        asked = {demand.queue: demand.slots for demand in demands}
        self.asked.update(asked)
        return partial(self.asked.subtract, asked)

    def note(self, demands: Iterable[QueueDemand], full: Collection[str]) -> None:
        """Take note of which queues gave as many jobs as they were asked for."""
        self._full.difference_update(map(_queue, demands))
        self._full.update(full)

    def queues(self, but: Iterable[Collection[str]]) -> set[str]:
        """Give the queues that may be asked now, none of those that something must be asked about before."""
        if len(self._under_way) >= MOST_UNDER_WAY:
            return set()
        asked, free = self.asked, self._free
        return {queue for queue in self._full.difference(*but) if free[queue] - asked[queue] >= self._full_claim}
