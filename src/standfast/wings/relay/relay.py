"""Brings jobs into the store that were first written elsewhere; their source deletes them once they are here.

There are two sources: the spool of this host and the outbox of a user's database. A crash between any two lines
brings a job again, and the store knows it by its id. A job that the store can never take holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from standfast.job import NewJob
from standfast.store.scripts import Write
from standfast.store.store import Store
from standfast.wings.relay.scripts import Forward, Unforwardable

Item = TypeVar("Item")

MOST_TOGETHER = 5000
MOST_BYTES = 8 << 20
"""How much one transaction brings, even of jobs that were handed in together: it must end before its deadline."""


class Entry(Protocol):
    """A job in its source."""

    @property
    def job(self) -> NewJob:
        """The job itself."""


EntryT = TypeVar("EntryT", bound=Entry)


class Source(Protocol[EntryT]):
    """A place where jobs wait for the store."""

    @property
    def script(self) -> Write[Forward, bool]:
        """The script that stores them."""

    async def next_entries(self) -> Sequence[EntryT]:
        """Return the oldest jobs not yet returned; none if that is all for now."""

    def forward(self, entry: EntryT) -> Forward:
        """Return how to store one job."""

    def apart(self, entries: Sequence[EntryT]) -> Iterable[Sequence[EntryT]] | None:
        """Split jobs into parts that may be stored one after the other; None if they belong together."""

    async def settle(self, entries: Sequence[EntryT], here: Sequence[bool]) -> None:
        """Delete those that are in the store now, and keep the others."""

    async def refuse(self, entries: Sequence[EntryT], error: Unforwardable) -> None:
        """Deal with jobs that the store cannot take."""


class Relay(Generic[EntryT]):
    """Empties one source. It is awaited on a loop, or run in a thread by `run_sync`."""

    def __init__(self, store: Store, source: Source[EntryT]) -> None:
        self._store = store
        self._source = source

    async def run(self) -> None:
        """Bring every waiting job, in order."""
        while entries := await self._source.next_entries():
            for part in cut(entries):
                await self.bring(part)

    async def bring(self, entries: Sequence[EntryT]) -> None:
        """Store these jobs, then let the source delete them."""
        try:
            here = await hand_over(self._store, self._source.script, [self._source.forward(each) for each in entries])
        except Unforwardable as error:
            await self._bring_apart(entries, error)
        else:
            await self._source.settle(entries, here)

    async def _bring_apart(self, entries: Sequence[EntryT], error: Unforwardable) -> None:
        parts = self._source.apart(entries)
        if parts is None:
            await self._source.refuse(entries, error)
            return
        for part in parts:
            await self.bring(part)


async def hand_over(store: Store, script: Write[Item, bool], items: Sequence[Item]) -> list[bool]:
    """Write items; answer for each whether it is here. An item the store can never take raises Unforwardable."""
    try:
        return await store.write_all(script, items)
    except store.faults as error:
        raise Unforwardable(f"{type(error).__name__}: {error}") from error


def cut(entries: Sequence[EntryT]) -> Iterator[list[EntryT]]:
    """Cut into parts that one transaction can bring."""
    part: list[EntryT] = []
    size = 0
    for entry in entries:
        if part and (len(part) >= MOST_TOGETHER or size >= MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(entry)
        size += len(entry.job.payload)
    if part:
        yield part
