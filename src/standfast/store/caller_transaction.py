"""Writing inside one of the caller's own transactions, as the methods above the store see it."""

from __future__ import annotations

from typing import Protocol

from standfast.concurrency.flows import Answer
from standfast.store.scripts import Item, Result, Write


class CallerTransaction(Protocol):
    """A transaction of the caller, who commits what is written in it."""

    def write(self, script: Write[Item, Result], item: Item) -> Answer[Result]:
        """Run a script in the transaction; if it fails, nothing of it remains."""
