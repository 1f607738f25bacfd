"""Finds jobs whose worker is lost and jobs that waited too long, and has each decided like any other end."""

from __future__ import annotations

import random
from collections.abc import Callable

from standfast.decide.settle import age_reason, outlived, settle
from standfast.lifecycle import Transition
from standfast.outcome import Lapsed
from standfast.store.store import Store
from standfast.store.upkeep import Sweep, Swept


class Sweeper:
    """Any worker can sweep; each job is moved under its token, so that two sweepers do no harm."""

    def __init__(self, store: Store, sweep: Sweep, roll: Callable[[], float] = random.random) -> None:
        self._store = store
        self._sweep = sweep
        self._roll = roll

    async def sweep(self) -> None:
        """Sweep until nothing is left to decide."""
        while True:
            swept = await self._store.sweep(self._sweep)
            decided = [*self._lapsed(swept), *_expired(swept)]
            if not decided:
                return
            await self._store.apply(decided)

    def _lapsed(self, swept: Swept) -> list[Transition]:
        return [settle(claim, Lapsed(), swept.rules[claim.queue], self._roll()) for claim in swept.lapsed]


def _expired(swept: Swept) -> list[Transition]:
    found = []
    for job in swept.expired:
        code = age_reason(job.entered_at, job.expires_at, job.max_age, swept.now)
        if code is not None:
            found.append(outlived(job.n, job.token, job.id, job.queue, code))
    return found
