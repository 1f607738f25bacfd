"""A job that was checked and has its id, and is stored later: once a transaction of the caller's is committed, say."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from standfast.concurrency.flows import run_sync
from standfast.job import NewJob, Receipt


class PreparedJob:
    """Nothing of it is in the store until `store` or `store_sync` returns. Storing it twice stores it once."""

    def __init__(self, job: NewJob, accept: Callable[[NewJob], Coroutine[Any, Any, Receipt]]) -> None:
        self.id = job.id
        self._job = job
        self._accept = accept

    async def store(self) -> Receipt:
        """Store it; it is on disk when this returns."""
        return await self._accept(self._job)

    def store_sync(self) -> Receipt:
        """Do the same from code without an event loop."""
        return run_sync(self._accept(self._job))
