"""Alerts, pain, dead surfaces and timings as the store's users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from standfast.store.engine import Engine
from standfast.wings.alerts import conditions
from standfast.wings.alerts.conditions import Observation, Open, Pain, Told, Word
from standfast.wings.health import timings
from standfast.wings.health.words import Timing

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""


class Lookout:
    """The verbs about what is wrong, and about how long attempts take."""

    def __init__(self, engine: Callable[[], Engine[Any]]) -> None:
        self._engine = engine

    async def take_turn(self, seconds: float) -> float | None:
        """Get the turn to look; None if somebody else has it."""
        [held] = await self._engine().call(conditions.take_turn, [seconds], seconds=PATIENCE)
        return held  # type: ignore[no-any-return]

    async def observe(self, observation: Observation) -> bool:
        """Write what a look changed; False if somebody else has looked since."""
        [written] = await self._engine().call(conditions.observe, [observation], seconds=PATIENCE)
        return written  # type: ignore[no-any-return]

    async def tell(self, tellings: Iterable[Told]) -> list[bool]:
        """Store the jobs that tell of alerts; tell of each whether nobody was first."""
        return await self._engine().call(conditions.tell, list(tellings), seconds=PATIENCE)  # type: ignore[no-any-return]

    async def hurt(self, pains: Iterable[Pain]) -> list[bool]:
        """Store the jobs that carry pain signals; tell of each whether it was due."""
        return await self._engine().call(conditions.hurt, list(pains), seconds=PATIENCE)  # type: ignore[no-any-return]

    async def note_sink(self, word: Word) -> None:
        """Write down how a delivery to a surface went."""
        await self._engine().call(conditions.note_sinks, [word], seconds=PATIENCE)

    async def last_turn(self) -> float | None:
        """Read until when somebody has, or had, the turn to look."""
        return await self._engine().read(conditions.last_turn())

    async def standing(self) -> list[Open]:
        """Read the alerts that are open."""
        return await self._engine().read(conditions.standing())

    async def untold(self, now: float) -> list[Open]:
        """Read the alerts whose beginning or end no surface was told of."""
        return await self._engine().read(conditions.untold(now))

    async def hurting(self, now: float, every: float) -> list[Open]:
        """Read the alerts that are open, and did not hurt lately."""
        return await self._engine().read(conditions.hurting(now, every))

    async def sinks(self) -> list[tuple[str, float, str]]:
        """Read the surfaces that take nothing."""
        return await self._engine().read(conditions.sinks())

    async def measured(self) -> tuple[dict[str, Timing], dict[str, int]]:
        """Read how long attempts waited and took, and how many letters are held, by queue."""
        return await self._engine().read(timings.measured())
