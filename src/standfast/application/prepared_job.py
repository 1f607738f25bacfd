"""A job that is checked and has its id, to be stored later: once the caller's transaction is committed, for example."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from standfast.concurrency.flows import run_sync
from standfast.job import NewJob, Receipt


class PreparedJob:
    """A job that is not in the store until `store` or `store_sync` returns. Storing it twice stores it once."""

    def __init__(self, job: NewJob, accept: Callable[[NewJob], Coroutine[Any, Any, Receipt]]) -> None:
        self.id = job.id
        self._job = job
        self._accept = accept

    async def store(self) -> Receipt:
        """Store the job; it is on disk when this returns."""
        return await self._accept(self._job)

    def store_sync(self) -> Receipt:
        """Do the same from code without an event loop."""
        return run_sync(self._accept(self._job))
