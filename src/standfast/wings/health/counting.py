"""How many jobs of each queue are where: exact at any size, and no dearer for a million than for one.

Nothing here walks the jobs that wait. `docs/decisions.md` ("Counts") says why the numbers are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text

SLOT, HOUR = 10, 3600
"""Seconds by which jobs that are due later are counted together: the first up to a full hour, then the second."""
UNSUMMED = 2_000
"""With so many rows of counters that no worker has put together, whoever reads them does it first."""
BITE = 20_000
"""How many rows of counters are put together at once. A server does that in a fraction of its 5 s, also a slow one."""


class QueueCounts(NamedTuple):
    """How many jobs of one queue are where. Due, scheduled and parked ones are all of those that are queued."""

    queued: int = 0
    scheduled: int = 0
    parked: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    held: int = 0

    @property
    def due(self) -> int:
        """Those that could start now."""
        return self.queued - self.scheduled - self.parked

    @property
    def letters(self) -> int:
        """Those that stopped and need a person."""
        return self.dead + self.held


NONE = QueueCounts()
JobCounts = dict[str, QueueCounts]


def job_counts(now: float) -> Script[JobCounts]:
    """Count the jobs of every queue that has or had any."""
    rows = yield "job_counts", {"now": now, **_edges(now)}
    sums: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(QueueCounts._fields, 0))
    for queue, what, number in rows:
        sums[queue][what] += number
    return {queue: QueueCounts(**counts) for queue, counts in sums.items()}


def _edges(now: float) -> dict[str, float]:
    """Give where each way of counting what is due later begins.

    What is due within the next slot is counted job by job: a process whose clock is ahead may have made it claimable
    already, which no slot tells.
    """
    slot = int(now // SLOT) + 2
    hour = -(-slot * SLOT // HOUR)
    return {"slot": slot, "soon": slot * SLOT, "hour": hour, "end_of_slots": hour * HOUR // SLOT}


class Miscount(NamedTuple):
    """A count that is not what the jobs themselves say."""

    queue: str
    what: str
    counted: int
    found: int


WALKED = ("due", "scheduled", "parked", "waiting", "running", "dead", "held")


def miscounts(now: float) -> Script[list[Miscount]]:
    """Walk through all jobs that are not final, and name each count that is wrong: there should never be one."""
    counts = yield from job_counts(now)
    walked = {(queue, what): number for queue, what, number in (yield "walked_counts", {"now": now})}
    queues = sorted({*counts, *(queue for queue, _ in walked)})
    compared = [
        Miscount(queue, what, getattr(counts.get(queue, NONE), what), walked.get((queue, what), 0))
        for queue in queues
        for what in WALKED
    ]
    return [each for each in compared if each.counted != each.found]


def _past_slots(now: float) -> dict[str, int]:
    """Give the slots before which none is read any more, even by a process whose clock is an hour late."""
    return {"slot": int((now - HOUR) // SLOT), "hour": int((now - HOUR) // HOUR)}


@writes()
def sum_up(round_: Round, asked: Sequence[None]) -> Script[list[bool]]:
    """Put counters together and forget times that have passed, unless another transaction is doing that.

    It returns whether more is left than one transaction should put together.
    """
    more = False
    if (yield "try_journal", {}) != [(False,)]:
        counters = yield "sum_counters", {"most": BITE}
        jobs = yield "sum_job_counts", {"most": BITE}
        more = [(True,)] in (counters, jobs)
        yield "forget_slots", _past_slots(round_.now)
    return [more] * len(asked)


def forget_counts(limit: int) -> Script[int]:
    """Drop the counts of forgotten queues, and keep them in the totals; return for how many queues.

    Only whoever has the journal's lock changes what is summed, so these statements all see the same rows. Counts stay
    exact because only counts that say 0 are dropped, also if a job comes to such a queue meanwhile: that adds a row.
    """
    if (yield "try_journal", {}) == [(False,)]:
        return 0
    settled = [queue for (queue,) in (yield "settled_counts", {"limit": limit})]
    if settled:
        queues = {"queues": text(settled)}
        yield "keep_counters", queues
        yield "keep_job_counts", queues
        yield "delete_counters", queues
        yield "delete_job_counts", queues
    return len(settled)


def needs_summing() -> Script[bool]:
    """Tell whether no worker has put counters together for long, so that reading them would cost more each time."""
    rows = yield "unsummed_counts", {"most": UNSUMMED}
    return bool(rows) and rows[0][0] >= UNSUMMED


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
