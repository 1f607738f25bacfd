"""The journal as its followers read it: in commit order, without gaps."""

from __future__ import annotations

import asyncio

from standfast.store.steps import Script
from standfast.store.store import Store
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.scripts import JournalRow, number_journal

LOOK_EVERY = 0.1
"""Seconds between looks at the journal, while anybody follows."""


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


async def newest(store: Store) -> int:
    """Return the newest number once everything told so far has one: what is committed from now on comes behind it."""
    end = await store.read(journal_scripts.journal_end())
    while end.unnumbered:
        more = await store.write(number_journal, None)
        end = await store.read(journal_scripts.journal_end())
        if more is False:
            break
        if more is None:
            await asyncio.sleep(LOOK_EVERY)  # another process is numbering
    return end.seq
