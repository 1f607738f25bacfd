"""Decides when to make a second claim while one is under way.

Where claims have a writer of their own, that writer would be idle while the jobs of one claim begin. So a queue whose
last claim was full is claimed from once more, as soon as there are slots for another full claim.
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
    """The slots that the claims `under_way` want to fill, and the queues that allow a second, full claim now.

    `free` counts the free slots of each queue, including those that a claim under way is to fill. A claim of
    `full_claim` jobs is full.
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
        """Note a claim that is about to be made; return the function to call once it is answered."""
        asked = {demand.queue: demand.slots for demand in demands}
        self.asked.update(asked)
        return partial(self.asked.subtract, asked)

    def note(self, demands: Iterable[QueueDemand], full: Collection[str]) -> None:
        """Note which queues gave as many jobs as were asked for."""
        self._full.difference_update(map(_queue, demands))
        self._full.update(full)

    def queues(self, but: Iterable[Collection[str]]) -> set[str]:
        """Return the queues that may be claimed from now, except those in `but`, which have a gate or probes to ask."""
        if len(self._under_way) >= MOST_UNDER_WAY:
            return set()
        asked, free = self.asked, self._free
        return {queue for queue in self._full.difference(*but) if free[queue] - asked[queue] >= self._full_claim}
