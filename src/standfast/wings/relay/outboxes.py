"""The outboxes that this process can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID
from weakref import WeakSet

from standfast.concurrency.loops import Loop
from standfast.job import NewJob
from standfast.wings.relay.outbox import Outbox

UNNAMED = "a database of this process"
"""What a database is called that is in memory, or was never opened."""


class CountedOutbox(NamedTuple):
    """An outbox that this process declares, and how many jobs wait there since when by the wall clock."""

    database: str
    jobs: int
    oldest_at: float | None = None
    problem: str | None = None
    """Why it cannot be read."""


class Outboxes:
    """Every outbox that was declared here and is still in use, and those that each worker relays."""

    def __init__(self) -> None:
        self._all: WeakSet[Outbox] = WeakSet()
        self._of_workers: list[Outbox] = []

    def add(self, outbox: Outbox, *, with_workers: bool) -> None:
        """Add an outbox."""
        self._all.add(outbox)
        if with_workers:
            self._of_workers.append(outbox)

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._all)

    def loops(self) -> Iterator[Loop]:
        """Return the loops that relay the workers' outboxes, for one worker."""
        return (outbox.loop() for outbox in self._of_workers)

    async def find(self, job_id: str) -> NewJob | None:
        """Read a job that is committed in one of them and not brought yet."""
        for outbox in list(self._all):
            if (row := await outbox.table.find(job_id)) is not None:
                return row.job
        return None

    async def counted(self) -> list[CountedOutbox]:
        """Count what waits in each, through the application's own connection."""
        found = {}
        for outbox in list(self._all):
            jobs, oldest, problem = await outbox.table.count()
            name = outbox.table.file or UNNAMED
            found[name] = CountedOutbox(name, jobs, _time_of(oldest), problem)
        return list(found.values())

    async def close(self) -> None:
        """Stop relaying for workers, and close every connection."""
        for outbox in self._of_workers:
            await outbox.close()
        for outbox in list(self._all):
            await outbox.table.close()


def _time_of(job_id: str | None) -> float | None:
    """Return when an id was made, by the wall clock of whoever made it: ids are UUIDv7."""
    with suppress(ValueError, TypeError):
        return (UUID(job_id).int >> 80) / 1000
    return None
