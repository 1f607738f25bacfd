"""Which job is claimed next. The stores' claim statements are held equal to this by a property test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from standfast.rules import QueueRules

OLDEST_EVERY = 10
"""Every tenth claim of a queue takes the longest-waiting job."""


class Candidate(msgspec.Struct, frozen=True):
    """A job that could be claimed now. `n` is its number in the store, `ready_at` when it was due and admitted."""

    n: int
    priority: int
    ready_at: float


def effective(priority: float, ready_at: float, now: float, boost_per_hour: float, cap: float) -> float:
    """Give the priority with its age. The order of the steps is part of it: a store must round alike."""
    waited = max(0.0, now - ready_at)
    return priority + min(cap, boost_per_hour * waited / 3600)


def order(
    candidates: Iterable[Candidate], now: float, rules: QueueRules, claims_so_far: int, wanted: int
) -> list[Candidate]:
    """Choose and order the next `wanted` claims of one queue, whose claims so far are counted.

    As many of them as have a number divisible by ten go to the longest-waiting jobs; these come first. The others
    go by effective priority, then by age. The boost alone would starve: it is capped, so a steady stream of higher
    priority would win for ever. With the tenth claim there is a bound: whatever else arrives, **the n-th longest
    waiting job runs within 10·n claims**, because those hold n tenth claims and each takes one of the n longest
    waiting, as long as one of them is left.
    """
    oldest_first = sorted(candidates, key=_age)
    tenths = (claims_so_far + wanted) // OLDEST_EVERY - claims_so_far // OLDEST_EVERY
    oldest, others = oldest_first[:tenths], oldest_first[tenths:]
    # A sort keeps the order of equals, so what is equal here stays ordered by age.
    others.sort(key=lambda job: -effective(job.priority, job.ready_at, now, rules.age_boost, rules.age_boost_cap))
    return [*oldest, *others[: wanted - len(oldest)]]


def _age(candidate: Candidate) -> tuple[float, int]:
    return candidate.ready_at, candidate.n
