"""Deletes rows that are no longer needed, in small batches; on by default."""

from __future__ import annotations

from standfast.store.store import Store
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest

EVERY = 60.0


class Pruner:
    """Prunes batch by batch until nothing is left to prune."""

    def __init__(self, store: Store, prune: PruneRequest | None = None) -> None:
        self._store = store
        self._prune = prune or PruneRequest()

    async def prune(self) -> None:
        """Prune everything that may be deleted now."""
        while await self._store.write(upkeep.prune, self._prune):
            pass  # each batch is a transaction of its own, so that other writes can run in between
