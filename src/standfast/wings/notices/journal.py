"""The journal as its followers read it: in commit order, without gaps."""

from __future__ import annotations

from standfast.store.steps import Script
from standfast.store.store import Store
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.scripts import JournalRow, number_journal


async def journal(store: Store, after: int, limit: int) -> list[JournalRow]:
    """Read the rows after a journal row; if the rows there have no numbers yet, have them numbered first."""
    rows, unnumbered = await store.read(_read(after, limit))
    if unnumbered:
        await store.write(number_journal, None)
        rows = await store.read(journal_scripts.journal(after, limit))
    return rows


def _read(after: int, limit: int) -> Script[tuple[list[JournalRow], bool]]:
    rows = yield from journal_scripts.journal(after, limit)
    return rows, not rows and (yield from journal_scripts.last_journal_number()) > after
