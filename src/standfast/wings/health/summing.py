"""Sums counters up in bites. Reading them is exact without that, but then each reader pays for every row."""

from __future__ import annotations

from contextlib import suppress

from standfast.errors import StandfastError
from standfast.store.store import Store
from standfast.wings.health.counting import needs_summing, sum_up


async def sum_counters(store: Store) -> None:
    """Sum up counters that no sweep has summed, if there are many; each bite is a transaction of its own."""
    if await store.read(needs_summing()):
        with suppress(StandfastError):  # counting is exact without it
            while await store.write(sum_up, None):
                pass
