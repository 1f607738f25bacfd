"""Does something outside the queue burden its store? Facts in, and out come the issues that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from standfast.wings.records.figures import data_size, number, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OLDEST_SNAPSHOT = 600.0
"""Seconds a snapshot may be held: rows that died since cannot be cleaned away, and claims walk through them."""
LEAST_DEAD = 100_000
DEAD_TO_LIVE = 10
"""LEAST_DEAD dead rows are no trouble; more are if there are also more than DEAD_TO_LIVE for each live row."""

LARGEST_WAL = 128 << 20
"""Bytes of a WAL that are no trouble: it shrinks to half of that by itself."""

PROMOTIONS = {
    "leaving": "a promotion to {where} is running",
    "interrupted": "a promotion to {where} was interrupted: this store goes on; run it again, or let it end by itself",
    "filling": "standfast promote is filling this store, or was interrupted: run it again if it does not run any more",
}


def issues(
    snapshots: Sequence[tuple[str, float | None]] = (),
    *,
    dead: int = 0,
    live: int = 0,
    promotion: tuple[str, str] | None = None,
    wal: tuple[int, Sequence[str]] = (0, ()),
) -> Iterator[str]:
    """Word every issue."""
    for who, seconds in snapshots:
        if seconds is None or seconds > OLDEST_SNAPSHOT:
            long = "long" if seconds is None else span(seconds)
            yield f"{who} has held a snapshot for {long}: what has ended cannot be cleaned away; end it"
    if dead > LEAST_DEAD and dead > DEAD_TO_LIVE * live:
        rows = f"{number(dead)} dead rows to {number(live)} live ones"
        yield f"the table of jobs has {rows}: vacuum it, and see why that did not happen"
    size, readers = wal
    if size > LARGEST_WAL:
        who = ", ".join(readers) or "a reader in another process"
        yield (
            f"the file beside the store in which changes wait (-wal) has grown to {data_size(size)}: {who} reads an "
            "old state, so that it cannot be emptied; end that"
        )
    if promotion is not None:
        state, where = promotion
        yield PROMOTIONS[state].format(where=where)
