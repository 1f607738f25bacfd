"""What people do to letters, as the store's users see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from standfast.store.engine import Engine
from standfast.wings.jobs.reads import LetterFilter
from standfast.wings.letters import arrivals
from standfast.wings.letters import scripts as letters
from standfast.wings.letters.arrivals import Arrival, Arrived
from standfast.wings.letters.scripts import Amendment, Mark, Purge, Purged, Quarantine

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""
LONG = 60.0
"""Seconds a purge may take: it is one transaction for a whole bite, and counts first."""


class Disposal:
    """The verbs about letters that end them, change them, or bring them in."""

    def __init__(self, engine: Callable[[], Engine[Any]]) -> None:
        self._engine = engine

    async def amend(self, amendment: Amendment) -> bool:
        """Give a letter another payload; False if it is not as it was read."""
        [fresh] = await self._engine().call(letters.amend, [amendment], seconds=PATIENCE)
        return fresh  # type: ignore[no-any-return]

    async def quarantine(self, quarantine: Quarantine) -> bool:
        """Set a letter apart; False if it is not as it was read."""
        [fresh] = await self._engine().call(letters.quarantine, [quarantine], seconds=PATIENCE)
        return fresh  # type: ignore[no-any-return]

    async def purge(self, purge: Purge) -> Purged:
        """Delete a bite of letters; none unless there are as many as said."""
        [purged] = await self._engine().call(letters.purge, [purge], seconds=LONG)
        return purged  # type: ignore[no-any-return]

    async def bring_in(self, arrivals_: Sequence[Arrival]) -> list[Arrived]:
        """Store letters that came from elsewhere, all of them or none; tell of each what became of it."""
        call = self._engine().call
        [answers] = await call(arrivals.bring_in, [arrivals_], seconds=PATIENCE)
        return answers  # type: ignore[no-any-return]

    async def walk(self, wanted: LetterFilter) -> tuple[list[Mark], dict[int, list[str]], int | None]:
        """Read a bite of letters, newest first, with the histories of those that were replayed; and where to go on."""
        return await self._engine().read(letters.walk(wanted))

    async def stamp(self, stamps: Sequence[tuple[int, int, str]]) -> None:
        """Give letters their fingerprints that were written without: number, token, fingerprint."""
        await self._engine().call(letters.stamp, stamps, seconds=PATIENCE)
