"""Calls as the store's users see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standfast.job import Receipt
from standfast.spine.orders import Conflict, Full
from standfast.store.engine import Engine
from standfast.wings.calls import scripts as calls
from standfast.wings.calls.scripts import Call, Called, HandedOver
from standfast.wings.limits import probe_scripts as probes

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""


class Calls:
    """The verbs about calls."""

    def __init__(self, engine: Callable[[], Engine[Any]], room: int) -> None:
        self._engine = engine
        self._room = room
        """Free bytes below which nothing is taken in."""

    async def call(self, call: Call) -> Called:
        """Store a job, and claim it for its caller if it may start now."""
        [called] = await self._engine().call(calls.call, [call], seconds=PATIENCE)
        return called  # type: ignore[no-any-return]

    async def hand_over(self, handed: HandedOver) -> Receipt | Conflict | Full:
        """Store a call that failed already."""
        [answer] = await self._engine().call(calls.hand_over, [handed], seconds=PATIENCE)
        return answer  # type: ignore[no-any-return]

    async def insist(self, job_id: str) -> bool:
        """Have a waiting job called although its handler is disabled; False if none of that is so."""
        [insisted] = await self._engine().call(probes.insist, [job_id], seconds=PATIENCE)
        return insisted  # type: ignore[no-any-return]

    async def places(self, name: str) -> list[tuple[str, str]]:
        """Read the handlers that a name may mean, with their queues."""
        return await self._engine().read(calls.places(name))

    async def declared(self, queue: str, handler: str) -> tuple[str, float | None, Any]:
        """Read a handler's replay mode, timeout and risk."""
        return await self._engine().read(calls.declared(queue, handler))
