"""How many jobs of each queue are in which state: exact, and as cheap for a million jobs as for one.

Nothing here walks through waiting jobs. `docs/decisions.md` ("Counts") says why the numbers are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text

SLOT, HOUR = 10, 3600
"""Jobs that are due later are counted in slots of this many seconds: SLOT up to a full hour, HOUR after it."""
UNSUMMED = 2_000
"""From this many rows of counters that no worker has summed up, a reader sums them up first."""
BITE = 20_000
"""How many rows of counters are summed up at once. Even a slow server does that in a fraction of its 5 s."""


class QueueCounts(NamedTuple):
    """How many jobs of one queue are in which state. `queued` is the sum of due, scheduled and parked."""

    queued: int = 0
    scheduled: int = 0
    parked: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    held: int = 0

    @property
    def due(self) -> int:
        """The jobs that could start now."""
        return self.queued - self.scheduled - self.parked

    @property
    def letters(self) -> int:
        """The jobs that stopped and need a person."""
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
    """Return where each way of counting later jobs begins.

    Jobs due within the next slot are counted one by one: a process whose clock is ahead may have made them claimable
    already, which the slots do not show.
    """
    slot = int(now // SLOT) + 2
    hour = -(-slot * SLOT // HOUR)
    return {"slot": slot, "soon": slot * SLOT, "hour": hour, "end_of_slots": hour * HOUR // SLOT}


class Miscount(NamedTuple):
    """A count that differs from what the jobs themselves say."""

    queue: str
    what: str
    counted: int
    found: int


WALKED = ("due", "scheduled", "parked", "waiting", "running", "dead", "held")


def miscounts(now: float) -> Script[list[Miscount]]:
    """Walk through all jobs that are not final, and return each count that is wrong: there should never be one."""
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
    """Return the slots before which no process reads any more, not even one whose clock is an hour late."""
    return {"slot": int((now - HOUR) // SLOT), "hour": int((now - HOUR) // HOUR)}


@writes()
def sum_up(round_: Round, asked: Sequence[None]) -> Script[list[bool]]:
    """Sum up counters and delete slots that have passed, unless another transaction is doing it.

    Return whether more is left than one transaction should sum up.
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
    """Return whether the counters have not been summed up for long, so that reading them costs more each time."""
    rows = yield "unsummed_counts", {"most": UNSUMMED}
    return bool(rows) and rows[0][0] >= UNSUMMED


class Lane(NamedTuple):
    """The claimable jobs of one queue, handler and priority, and since when the oldest has been claimable."""

    queue: str
    handler: str
    priority: int
    ready_at: float


def oldest(lanes: Sequence[Lane]) -> dict[str, float]:
    """Return since when the oldest claimable job of each queue has been claimable."""
    found: dict[str, float] = {}
    for lane in lanes:
        found[lane.queue] = min(lane.ready_at, found.get(lane.queue, lane.ready_at))
    return found
