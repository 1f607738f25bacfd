"""What holds a store back from outside the queue: old snapshots and dead rows on a server; a promotion."""

from __future__ import annotations

from typing import NamedTuple

from standfast.store.steps import Script


class Strain(NamedTuple):
    """Who holds on to a snapshot and for how many seconds, if known; the dead and live rows of jobs; a promotion."""

    snapshots: tuple[tuple[str, float | None], ...] = ()
    dead: int = 0
    live: int = 0
    promotion: tuple[str, str] | None = None
    """Whether it is `leaving`, `interrupted` or `filling`, and where it leads."""


def strain(now: float) -> Script[Strain]:
    """Read it; a server tells of others only what the user may see."""
    snapshots = yield "old_snapshots", {}
    rows = yield "dead_rows", {}
    promotions = yield "promotion_mark", {"now": now}
    dead, live = rows[0] if rows else (0, 0)
    return Strain(tuple((who, age) for who, age in snapshots), dead, live, promotions[0] if promotions else None)
