"""The ledger as the store's users see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from standfast.job import Entry, Note
from standfast.store.engine import Engine
from standfast.store.scripts import Write
from standfast.wings.effects import scripts as ledger
from standfast.wings.effects.scripts import Looked

PATIENCE = 5.0
"""Seconds an intent waits for the store: nothing is begun that cannot be written down."""


def _script(note: Note) -> Write[Note, Entry | None]:
    return ledger.intend if note.state == "begun" else ledger.write


class Notes:
    """The verbs about effects and steps."""

    def __init__(self, engine: Callable[[], Engine[Any]], room: int) -> None:
        self._engine = engine
        self._room = room
        """Free bytes below which nothing is begun."""

    def note(self, note: Note) -> Awaitable[list[Entry | None]]:
        """Write down an effect; answer how it stands in the ledger, or None if the job is somebody else's by now.

        It is on its way when this returns. An intent waits as long as a caller does, a receipt however long it takes.
        """
        return self._engine().call(_script(note), [note], **self._bounds(note)).start()

    def note_blocking(self, note: Note) -> list[Entry | None]:
        """Do the same for a caller without a loop."""
        return self._engine().call(_script(note), [note], **self._bounds(note)).result()  # type: ignore[no-any-return]

    def _bounds(self, note: Note) -> dict[str, Any]:
        """Give how long a note may take and the disk space it asks for: what was done must be written down."""
        return {"seconds": PATIENCE if note.state == "begun" else None}

    async def keep_looks(self, looked: Looked) -> bool:
        """Keep what an attempt saw before it runs; False if another has its job by now."""
        [owned] = await self._engine().call(ledger.keep_looks, [looked], seconds=PATIENCE)
        return owned  # type: ignore[no-any-return]

    async def receipt(self, n: int, name: str) -> str | None:
        """Read the receipt of an effect or step by its key, as JSON text."""
        return await self._engine().read(ledger.receipt(n, name))

    def receipt_blocking(self, n: int, name: str) -> str | None:
        """Do the same for a caller without a loop."""
        return self._engine().read(ledger.receipt(n, name)).result()
