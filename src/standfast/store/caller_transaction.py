"""Writing inside a transaction of the caller's own, as the store's verbs see it."""

from __future__ import annotations

from typing import Protocol

from standfast.concurrency.flows import Answer
from standfast.store.scripts import Item, Result, Write


class CallerTransaction(Protocol):
    """A transaction of the caller's. What is written there is theirs to commit."""

    def write(self, script: Write[Item, Result], item: Item) -> Answer[Result]:
        """Run a script in it; whatever goes wrong, nothing of it stays behind."""
