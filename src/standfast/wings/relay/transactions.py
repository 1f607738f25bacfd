"""`tx=`: a job that is there exactly if the caller's own transaction commits.

On the store's own PostgreSQL it is written where it belongs, through the caller's connection. A user's SQLite database
is never the store's, so there it is written to an outbox, and a relay brings it here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from standfast.clock import Clock
from standfast.job import NewJob, Receipt
from standfast.spine import bulk
from standfast.spine.accept import receipt
from standfast.spine.claim_requests import Accepted
from standfast.store.store import Store
from standfast.wings.relay import outbox


class Transactions:
    """Writes jobs inside transactions that callers commit or roll back."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._store = store
        self._ready = ready
        self._clock = clock

    async def enqueue(self, tx: object, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write all of these jobs, or none; their receipts say what is so once the caller commits."""
        if outbox.is_connection(tx):
            return self._defer(tx, jobs)
        await self._ready()
        return _receipts(await self._store.caller_transaction(tx).write(bulk.enqueue_bulk, jobs), jobs)

    def _defer(self, tx: object, jobs: Sequence[NewJob]) -> list[Receipt]:
        self._store.check_not_closed()
        return _receipts(outbox.defer(self._store, tx, jobs, self._clock.wall()), jobs)


def _receipts(answers: Sequence[Accepted], jobs: Sequence[NewJob]) -> list[Receipt]:
    return [receipt(answer, job) for answer, job in zip(answers, jobs, strict=True)]
