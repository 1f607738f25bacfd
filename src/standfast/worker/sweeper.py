"""Finds jobs whose worker is lost and jobs that waited too long, and has each decided like any other end."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import compress

from standfast.decide.settle import age_reason, outlived, settle
from standfast.lifecycle import Transition
from standfast.outcome import Lapsed
from standfast.store.store import Store
from standfast.store.upkeep import Sweep, Swept
from standfast.worker.telling import tell


class Sweeper:
    """Any worker can sweep; each job is moved under its token, so that two sweepers do no harm."""

    def __init__(
        self,
        store: Store,
        sweep: Sweep,
        roll: Callable[[], float] = random.random,
        wait: Callable[[float], float] = lambda _lease: 0.0,
    ) -> None:
        self._store = store
        self._sweep = sweep
        self._roll = roll
        self._wait = wait
        """How long a worker must be seen late before a job of it with this lease is taken away."""
        self._late: dict[str, float] = {}

    async def sweep(self) -> None:
        """Sweep until nothing is left to decide."""
        while True:
            swept = await self._store.sweep(self._sweep)
            decided = [*self._lapsed(swept), *_expired(swept)]
            if not decided:
                return
            landed = await self._store.apply(decided)
            claims = {claim.id: claim for claim in swept.lapsed}
            for end in compress(decided, landed):
                if end.id in claims:
                    tell(end, claims[end.id].handler, claims[end.id].max_attempts)

    def _lapsed(self, swept: Swept) -> list[Transition]:
        """Decide about the jobs of workers that had the time to renew and did not.

        Whoever was kept from the store by an outage that is just over looks lost for a moment, to any sweeper.
        """
        self._late = {claim.worker: self._late.get(claim.worker, swept.now) for claim in swept.lapsed}
        return [
            settle(claim, Lapsed(), swept.rules[claim.queue], self._roll())
            for claim in swept.lapsed
            if swept.now - self._late[claim.worker] >= self._wait(claim.lease)
        ]


def _expired(swept: Swept) -> list[Transition]:
    found = []
    for job in swept.expired:
        code = age_reason(job.entered_at, job.expires_at, job.max_age, swept.now)
        if code is not None:
            found.append(outlived(job.standing, code))
    return found
