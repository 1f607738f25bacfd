"""Takes redrives further, replays what a rule put off, and sees to approvals that nobody answered. Any worker can."""

from __future__ import annotations

import asyncio

from standfast.decide.redrive import EVERY as STEP_EVERY
from standfast.queue.approvals import LEAVE_TO_APPROVER
from standfast.queue.letters import DeadLetters
from standfast.store.store import Store

EVERY = 2.0
"""Seconds between two looks whether there is anything to do."""


class Redriver:
    """Looks seldom while there is nothing to do, and goes step by step while a redrive runs."""

    def __init__(self, store: Store, letters: DeadLetters, driver: str) -> None:
        self._store = store
        self._letters = letters
        self._driver = driver

    async def go_on(self) -> None:
        """Do what waits, until no redrive runs any more."""
        while await self.step():  # noqa: ASYNC110 - what is waited for happens in other processes too
            await asyncio.sleep(STEP_EVERY)

    async def step(self) -> bool:
        """Do what can be done now; tell whether a redrive runs."""
        now = self._store.now()
        running, answers, replays = await self._store.governance.business(now, now - LEAVE_TO_APPROVER)
        if answers:
            await self._letters.approvals.sweep()
        if replays:
            await self.replays_due()
        if running:
            while await self._letters.redrives.drive(self._driver):
                pass
        return running

    async def replays_due(self) -> int:
        """Replay all that a rule put off until now; tell how many went."""
        went = 0
        while number := await self._letters.automatic.replay_due():
            went += number
        return went
