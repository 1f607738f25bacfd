"""Counting for people: a look at the whole counts a bounded number of jobs, and says which counts stopped there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from standfast.store.steps import Script, text

GROWS = 1.5
"""By how much the share of the large queues must grow for another look at them."""
LOOKS = 3
"""How often large queues are counted anew at most, with a larger share."""


class Count(NamedTuple):
    """How many there are, or at least so many if there may be `more`."""

    number: int
    more: bool


NONE = Count(0, more=False)
Counts = dict[str, Count]


class Lane(NamedTuple):
    """Jobs of one queue, handler and priority that can be claimed, and since when the oldest of them could be."""

    queue: str
    handler: str
    priority: int
    ready_at: float


def oldest(lanes: Sequence[Lane]) -> dict[str, float]:
    """Give since when the oldest claimable job of each queue is."""
    found: dict[str, float] = {}
    for lane in lanes:
        found[lane.queue] = min(lane.ready_at, found.get(lane.queue, lane.ready_at))
    return found


def count_each(statement: str, least: Mapping[str, int], most: int) -> Script[Counts]:
    """Count one kind of jobs in each queue, about so many in all; no count stops before its queue's `least`.

    What small queues leave of it is shared by the large ones.
    """
    found: Counts = {}
    open_, left, share = [*least], most, 0
    for _ in range(LOOKS):
        if not open_ or left // len(open_) < max(1, GROWS * share):
            break
        share = left // len(open_)
        found |= yield from _count(statement, open_, share)
        left -= sum(found[queue].number for queue in open_ if not found[queue].more)
        open_ = [queue for queue in open_ if found[queue].more]
    too_short = {queue: number for queue, number in least.items() if _is_short(found.get(queue), number)}
    for number in {*too_short.values()}:
        found |= yield from _count(statement, [queue for queue in too_short if least[queue] == number], number)
    return found


def _is_short(count: Count | None, least: int) -> bool:
    return count is None or (count.more and count.number < least)


def _count(statement: str, queues: Sequence[str], most: int) -> Script[Counts]:
    rows = yield statement, {"queues": text(queues), "most": most}
    return {queue: Count(number, number >= most) for queue, number in rows}
