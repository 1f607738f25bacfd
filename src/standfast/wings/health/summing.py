"""Puts counters together in bites. Reading them is exact without that, but then each reader pays for every row."""

from __future__ import annotations

from contextlib import suppress

from standfast.errors import StandfastError
from standfast.store.store import Store
from standfast.wings.health.counting import needs_summing, sum_up


async def sum_counters(store: Store) -> None:
    """Put counters together where there are many that no sweep has; each bite is a transaction of its own."""
    if await store.read(needs_summing()):
        with suppress(StandfastError):  # counting is exact without it
            while await store.write(sum_up, None):
                pass
