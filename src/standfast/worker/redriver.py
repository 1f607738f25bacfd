"""Advances redrives, replays jobs that a rule postponed, and attends to approvals and consents. Any worker can."""

from __future__ import annotations

import asyncio

from standfast.store.store import Store
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.scripts import PendingWork
from standfast.wings.approvals.verbs import LEAVE_TO_APPROVER
from standfast.wings.consent.verbs import Consent
from standfast.wings.letters.verbs import DeadLetters
from standfast.wings.redrives.rules import EVERY as STEP_EVERY

EVERY = 2.0
"""Seconds between two checks whether there is anything to do."""


class Redriver:
    """Checks seldom while there is nothing to do, and often while a redrive runs."""

    def __init__(self, store: Store, letters: DeadLetters, driver: str, consent: Consent | None = None) -> None:
        self._store = store
        self._letters = letters
        self._consent = consent
        self._driver = driver

    async def go_on(self) -> None:
        """Do all pending work, until no redrive runs any more."""
        while await self.drive():  # noqa: ASYNC110 - redrives also advance in other processes
            await asyncio.sleep(STEP_EVERY)

    async def step(self) -> bool:
        """Do all that can be done now; return whether a redrive runs."""
        await self.replay()
        return await self.drive()

    async def replay(self) -> None:
        """Replay the jobs that a rule postponed until now; separately, because verifying effects may take long."""
        if (await self._business()).replays:
            await self.replays_due()

    async def drive(self, driver: str | None = None) -> bool:
        """Advance redrives a step, and attend to consents and approvals; return whether a redrive runs.

        Redrives are driven under the name `driver`, if given: a driver continues what one of the same name began.
        """
        business = await self._business()
        if business.asks and self._consent is not None:
            await self._consent.sweep()
        if business.approvals:
            await self._letters.approvals.sweep()
        if business.redrives:
            while await self._letters.redrives.drive(driver or self._driver):
                pass
        return business.redrives

    async def replays_due(self) -> int:
        """Replay the jobs that a rule postponed until now; return how many."""
        return await self._letters.automatic.replay_due()

    async def _business(self) -> PendingWork:
        now = self._store.now()
        return await self._store.read(approvals.pending_work(now, now - LEAVE_TO_APPROVER))
