"""Scripts for how long attempts wait and take. A worker writes its whole count, so writing it twice does no harm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from standfast.store.steps import Rows, Script, text
from standfast.timing import Timing

NOBODY = ""
"""The owner of the summed counts of workers that are gone."""

_timing = msgspec.json.Decoder(Timing).decode


class Counted(NamedTuple):
    """One worker's counts, by queue; `part` is a new one each time the worker was given up and came back."""

    owner: str
    part: int
    queues: Mapping[str, Timing]


def write(counted: Counted) -> Script[None]:
    """Write a worker's counts."""
    if counted.queues:
        rows = [(counted.owner, counted.part, queue, text(each)) for queue, each in sorted(counted.queues.items())]
        yield "write_timings", rows


def fold() -> Script[None]:
    """Sum up the counts of workers that are gone."""
    rows = yield "timings_of_the_gone", {}
    owners = sorted({owner for owner, *_ in rows} - {NOBODY})
    if owners:
        sums = _sums([(queue, counts) for _, _, queue, counts in rows])
        yield from write(Counted(NOBODY, 0, sums))
        yield "delete_timings", {"owners": text(owners)}


def read() -> Script[dict[str, Timing]]:
    """Read the counts of all workers, by queue."""
    return _sums((yield "timings", {}))


def _sums(rows: Rows) -> dict[str, Timing]:
    sums: defaultdict[str, Timing] = defaultdict(Timing)
    for queue, counts in rows:
        sums[queue] = sums[queue].plus(_timing(counts))
    return dict(sums)
