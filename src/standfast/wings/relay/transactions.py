"""`tx=`: a job that exists exactly if the caller's own transaction commits.

On the store's own PostgreSQL the job is written in its place, through the caller's connection. A user's SQLite database
is never the store's, so the job goes to an outbox there, and a relay brings it here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from standfast.clock import Clock
from standfast.job import NewJob, Receipt
from standfast.spine import bulk
from standfast.spine.accept import receipt
from standfast.spine.claim_requests import Accepted, Conflict
from standfast.store.store import Store
from standfast.wings.relay import outbox
from standfast.wings.relay.callers_database import CallersDatabase, in_callers_database, unwrapped
from standfast.wings.relay.outbox_marker import OutboxMarker


class Transactions:
    """Writes jobs inside transactions that callers commit or roll back."""

    def __init__(
        self, store: Store, ready: Callable[[], Awaitable[None]], clock: Clock, marker: OutboxMarker | None = None
    ) -> None:
        self._store = store
        self._marker = marker
        self._ready = ready
        self._clock = clock

    async def enqueue(self, tx: object, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write all of these jobs, or none; their receipts are true once the caller commits."""
        tx = unwrapped(tx)
        deferred = in_callers_database(tx, partial(self._defer, jobs))
        if deferred is not None:
            return _receipts(await deferred, jobs)
        await self._ready()
        return _receipts(await self._store.caller_transaction(tx).write(bulk.enqueue_bulk, jobs), jobs)

    def _defer(self, jobs: Sequence[NewJob], theirs: CallersDatabase) -> list[Receipt | Conflict]:
        self._store.check_not_closed()
        answers = outbox.defer(self._store, theirs, jobs, self._clock.wall())
        if self._marker is not None:
            self._marker.put(outbox.file_of(theirs))
        return answers


def _receipts(answers: Sequence[Accepted], jobs: Sequence[NewJob]) -> list[Receipt]:
    return [receipt(answer, job) for answer, job in zip(answers, jobs, strict=True)]
