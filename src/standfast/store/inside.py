"""Writing inside a transaction of the caller's own, as the store's verbs see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from standfast.store.scripts import Write


class Inside(Protocol):
    """A transaction of the caller's. What is written there is theirs to commit."""

    async def write(self, script: Write[Any, Any], items: Sequence[Any]) -> Any:
        """Run a script in it; whatever goes wrong, nothing of it stays behind."""

    def write_blocking(self, script: Write[Any, Any], items: Sequence[Any]) -> Any:
        """Do the same for a caller without a loop."""
