"""How much disk a round may use. What it will write is counted before it begins, so that accepted work can finish.

A page is written twice: into the WAL at the commit, and into the database at the next checkpoint. Ends, deaths and
upkeep are never refused; they use the space that new work and claims have to leave free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.errors import LowDisk
from standfast.printable import data_size
from standfast.store.requests import Reply, Request

ROOM_TO_ACCEPT = 64 << 20
"""Free bytes below which new work is refused."""
ROOM_TO_CLAIM = 32 << 20
"""Free bytes below which no more jobs are started: running jobs must still be able to record their end."""
ROOM_TO_END = 16 << 20
"""Free bytes that no result may use: deaths, heartbeats, sweeps and a growing WAL need them."""

PLENTY = 4 << 30
"""Free bytes above which nothing is counted: more than the largest round writes, and than a disk takes in a second."""
NEAR = 1 << 30
"""Free bytes above which waiting and running jobs are not counted."""

WRITTEN_TWICE = 2
ROUND = 64 << 10
"""Bytes that a round writes in addition to its items: journal, counters, the inner pages of indexes."""
ITEM = 4 << 10
"""Bytes that an item takes in addition to its texts: rows, and its share of the pages of their indexes."""
END_OF_A_JOB = 1 << 10
"""Bytes that a job's death takes; a completion takes less."""
LARGEST_TEXT = (1 << 20) + ITEM
"""Bytes of the largest result or receipt, with its row."""
LARGEST_OUTCOME = WRITTEN_TWICE * 2 * LARGEST_TEXT
"""Bytes that an attempt may still write after it starts: a receipt and a result."""
UNLIMITED = 1 << 30
"""How many jobs may be claimed while there is room."""


class Counts(NamedTuple):
    """How many jobs have not ended yet, and how many of them are running."""

    unfinished: int
    running: int


class RoomDecision(NamedTuple):
    """The requests there is no room for, each with the error for its caller, and how many jobs may be started."""

    refused: list[Reply]
    starts: int


def judge(pending: Sequence[Request[Any]], free: int, count: Callable[[], Counts]) -> RoomDecision:
    """Share out the free bytes: first to what is never refused, then to the others in the order they came."""
    left = free - ROUND - sum(weight(request) for request in pending if not request.room)
    known = count() if left < NEAR else Counts(0, 0)
    kept = known.unfinished * END_OF_A_JOB
    starts = max(0, (left - ROOM_TO_END) // LARGEST_OUTCOME - known.running) if left < NEAR else UNLIMITED
    refused: list[Reply] = []
    for request in (request for request in pending if request.room and not request.withdrawn):
        accepts = request.room >= ROOM_TO_ACCEPT
        needed, reserve = weight(request), request.room + (kept if accepts else 0)
        if left - needed < reserve:
            refused.append((request, low_disk(free, needed, reserve, doubtful=request.doubtful)))
        else:
            left -= needed
            kept += END_OF_A_JOB * request.size if accepts else 0
    return RoomDecision(refused, starts)


def weight(request: Request[Any]) -> int:
    """Return the bytes that a request will write, in the WAL and the database, plus what its items will need later."""
    reserved = request.script.reserve * len(request.items)
    return WRITTEN_TWICE * (_texts(request.items) + ITEM * request.size + reserved)


def _texts(value: Any) -> int:
    """Return the bytes of all texts in a value, at any depth."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, msgspec.Struct):
        return sum(_texts(getattr(value, field)) for field in value.__struct_fields__)
    if isinstance(value, dict):
        return sum(_texts(each) for each in value.values())
    return sum(_texts(each) for each in value) if isinstance(value, list | tuple) else 0


def low_disk(free: int, needed: int, reserve: int, *, doubtful: bool) -> LowDisk:
    """Build the error for a refusal."""
    written = "an earlier try may have been written" if doubtful else "nothing was written"
    left = data_size(max(free, 0))  # overdrawing a quota makes it negative
    return LowDisk(
        f"the disk is low ({left} free; this needs {data_size(needed)}, and {data_size(reserve)} are "
        f"kept to finish what was accepted); {written}: free some space, then call again",
        definite=not doubtful,
    )
