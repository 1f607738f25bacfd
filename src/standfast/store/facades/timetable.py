"""Schedules as the store's users see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from standfast.store.engine import Engine
from standfast.wings.schedules import scripts as schedules
from standfast.wings.schedules.scripts import Change, Pausing, Put, Schedule, Ticking

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""


class Timetable:
    """The verbs about schedules."""

    def __init__(self, engine: Callable[[], Engine[Any]], room: int) -> None:
        self._engine = engine
        self._room = room

    def now(self) -> tuple[float, float]:
        """Give the present queue time, and the present wall time."""
        now = self._engine().now()
        return now, now + self._engine().skew()

    def wall(self) -> float:
        """Give the present wall time."""
        return self.now()[1]

    async def put(self, wanted: Put) -> Change:
        """Store a schedule, or change the one of that name."""
        [change] = await self._engine().call(schedules.put, [wanted], seconds=PATIENCE)
        return change  # type: ignore[no-any-return]

    async def pause(self, pausing: Pausing) -> bool | None:
        """Pause a schedule or let it go on; None if nobody knows it, False if its times are others by now."""
        [known] = await self._engine().call(schedules.pause, [pausing], seconds=PATIENCE)
        return known  # type: ignore[no-any-return]

    async def remove(self, name: str) -> bool:
        """Forget a schedule; False if nobody knows it."""
        [known] = await self._engine().call(schedules.remove, [name], seconds=PATIENCE)
        return known  # type: ignore[no-any-return]

    async def tick(self, tickings: Sequence[Ticking]) -> list[bool]:
        """Write what was decided about schedules; tell which of them are done with."""
        if not tickings:
            return []
        return await self._engine().call(schedules.tick, tickings, seconds=PATIENCE)  # type: ignore[no-any-return]

    async def listed(self) -> list[Schedule]:
        """Read all schedules."""
        return await self._engine().read(schedules.listed())

    async def one(self, name: str) -> Schedule | None:
        """Read one schedule."""
        return await self._engine().read(schedules.one(name))

    async def due(self) -> list[Schedule]:
        """Read schedules whose time has come."""
        return await self._engine().read(schedules.due(*self.now()))

    async def until_next(self) -> float | None:
        """Read how many seconds are left until the next run of all."""
        return await self._engine().read(schedules.until_next(*self.now()))

    async def late(self, after: float) -> list[tuple[str, str, float, bool]]:
        """Read the schedules that should have run so long ago, and those whose queue is paused."""
        return await self._engine().read(schedules.late(*self.now(), after))
