"""How much disk a round may use. What it will write is counted before it begins, so that what was accepted can end.

A page is written twice: into the WAL at the commit, into the database at the next checkpoint. Ends, deaths and upkeep
are never refused; they live on what new work and claims have to leave free.
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
"""Free bytes below which nothing more is started: what runs must still be able to record its end."""
ROOM_TO_END = 16 << 20
"""Free bytes that no result counts on: deaths, heartbeats, sweeps and a WAL that grows need them."""

PLENTY = 4 << 30
"""Free bytes beyond which nothing is counted: more than the largest round writes, and than a disk takes in a second."""
NEAR = 1 << 30
"""Free bytes beyond which the jobs that wait and run are not counted."""

WRITTEN_TWICE = 2
ROUND = 64 << 10
"""Bytes a round writes besides its items: journal, counters, the inner pages of indexes."""
ITEM = 4 << 10
"""Bytes an item takes besides its texts: rows, and its share of the pages of their indexes."""
END_OF_A_JOB = 1 << 10
"""Bytes that the end of a job takes when it is a death; a completion takes less."""
LARGEST_TEXT = (1 << 20) + ITEM
"""Bytes of the largest result or receipt."""
LARGEST_OUTCOME = WRITTEN_TWICE * 2 * LARGEST_TEXT
"""Bytes an attempt may still write when it starts: a receipt and a result."""
UNLIMITED = 1 << 30
"""How many may be claimed while there is room."""


class Counts(NamedTuple):
    """How many jobs have not ended yet, and how many of them run."""

    unfinished: int
    running: int


class RoomDecision(NamedTuple):
    """Which requests there is no room for, with what their callers are told; and how many jobs may be started."""

    refused: list[Reply]
    starts: int


def judge(pending: Sequence[Request[Any]], free: int, count: Callable[[], Counts]) -> RoomDecision:
    """Share the free bytes out: first to what is never refused, then to the others in the order they came."""
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
    """Give the bytes a request will write, in the WAL and in the database; with what its items will need later."""
    reserved = request.script.reserve * len(request.items)
    return WRITTEN_TWICE * (_texts(request.items) + ITEM * request.size + reserved)


def _texts(value: Any) -> int:
    """Give the bytes of all texts in a value, however deep."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, msgspec.Struct):
        return sum(_texts(getattr(value, field)) for field in value.__struct_fields__)
    if isinstance(value, dict):
        return sum(_texts(each) for each in value.values())
    return sum(_texts(each) for each in value) if isinstance(value, list | tuple) else 0


def low_disk(free: int, needed: int, reserve: int, *, doubtful: bool) -> LowDisk:
    """Word the refusal."""
    written = "an earlier try may have been written" if doubtful else "nothing was written"
    left = data_size(max(free, 0))  # a quota may be overdrawn
    return LowDisk(
        f"the disk is low ({left} free; this needs {data_size(needed)}, and {data_size(reserve)} are "
        f"kept to finish what was accepted); {written}: free some space, then call again",
        definite=not doubtful,
    )
