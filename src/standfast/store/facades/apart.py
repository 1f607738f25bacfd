"""Which of the workers runs suspects, holding nothing else, as a worker asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standfast.store.engine import Engine
from standfast.worker import losses

PATIENCE = 5.0


class Turns:
    """The turn to stand apart: one worker at a time has it, for each queue."""

    def __init__(self, engine: Callable[[], Engine[Any]]) -> None:
        self._engine = engine

    async def take(self, worker: str, queue: str) -> bool:
        """Stand apart for a queue; False while another worker does."""
        [taken] = await self._engine().call(losses.stand_apart, [losses.Apart(worker, queue)], seconds=PATIENCE)
        return bool(taken)

    async def leave(self, worker: str) -> None:
        """Stand apart no longer."""
        await self._engine().call(losses.stand_back, [worker], seconds=PATIENCE)
