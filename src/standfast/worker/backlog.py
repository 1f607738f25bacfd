"""What producers leave behind while no worker sweeps: notices without numbers, and counters that are not added up.

A sweep takes a bite of each. What hours without workers have left, or comes faster than that, is worked off here. Each
bite is a transaction of its own, because all at once would take longer than a call to the server may.
"""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.health.summing import sum_counters
from standfast.wings.notices.scripts import BITE, journal_end, number_journal


async def catch_up(store: Store) -> None:
    """Work off what is more than a sweep takes; what another process is working off is left to it."""
    if (await store.read(journal_end())).unnumbered >= BITE:
        while await store.write(number_journal, None):
            pass
    await sum_counters(store)
