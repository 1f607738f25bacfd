"""What keeps an outbox from being emptied: logged once, and marked in the store, where health finds it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from standfast.errors import StandfastError
from standfast.printable import printable
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script
from standfast.store.store import Store

log = logging.getLogger("standfast.queue")

STUCK = "stuck outbox "
"""Followed by a database and what is wrong with it: the name of the mark that its outbox cannot be emptied."""
STUCK_AFTER = 5.0
"""Seconds for which an outbox may fail before that is an issue: another connection may have locked its database."""
MARK_EVERY = 20.0
"""Seconds between two marks of one outbox; each is shown for a minute."""
MARKS_KEPT = 3600.0
LONGEST = 400
"""How many characters of what is wrong are kept."""


class DatabaseFailed(StandfastError):
    """The user's database does not let its outbox be read or emptied."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


class Mark(NamedTuple):
    """What is wrong with an outbox, or was."""

    what: str
    over: bool = False


@writes()
def mark(round_: Round, marks: Sequence[Mark]) -> Script[list[None]]:
    """Mark outboxes that cannot be emptied, and forget those that can again."""
    yield "forget_marks", {"mark": STUCK, "before": round_.now - MARKS_KEPT}
    for each in marks:
        if each.over:
            yield "forget_marks", {"mark": f"{STUCK}{each.what}", "before": round_.now + 1}
        else:
            yield "mark_upkeep", {"name": f"{STUCK}{each.what}", "now": round_.now}
    return [None] * len(marks)


def issues(stuck: Iterable[str]) -> Iterator[str]:
    """Word the issue of each outbox that cannot be emptied."""
    for what in stuck:
        yield (
            f"outbox: {what}: jobs cannot leave it, and later ones may wait behind them; what was brought is not run "
            "again; let the process that relays it read and write that database"
        )


class Trouble:
    """What is wrong with one outbox at present, if anything is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._what: str | None = None
        self._since = 0.0
        self._marked: float | None = None

    async def note(self, database: str, error: Exception) -> None:
        """Note that the outbox of a database failed."""
        now, what = time.monotonic(), printable(f"{database}: {error}")[:LONGEST]
        if what != self._what:
            await self.over()
            self._what, self._since = what, now
            log.error("the outbox of %s cannot be emptied and will be tried again", what, exc_info=error)
        if now - self._since >= STUCK_AFTER and (self._marked is None or now - self._marked >= MARK_EVERY):
            self._marked = now
            await self._store.write(mark, Mark(what))

    async def over(self) -> None:
        """Note that nothing is wrong any more."""
        what, marked = self._what, self._marked
        self._what = self._marked = None
        if what is not None and marked is not None:
            await self._store.write(mark, Mark(what, over=True))
