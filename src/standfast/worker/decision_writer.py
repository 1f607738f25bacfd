"""Writes decisions about jobs: together, and one by one if that fails, so that no decision holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from standfast.lifecycle import Transition
from standfast.spine.apply import apply
from standfast.store.store import Store


class DecisionWriter:
    """Writes decisions in batches, each batch once, and again if the write was cut off."""

    def __init__(
        self,
        store: Store,
        written: Callable[[list[Transition], list[bool]], None],
        refused: Callable[[Transition, BaseException], None],
    ) -> None:
        self._store = store
        self._written = written
        """Called with decisions that were written, and whether each changed its job."""
        self._refused = refused
        """Called with a decision that cannot be written even by itself, and why."""
        self.under_way: set[asyncio.Future[Any]] = set()
        """The writes under way."""

    def write(self, decisions: list[Transition]) -> None:
        """Write these decisions in one transaction."""
        writing = self._store.write_all(apply, decisions).start()
        self.under_way.add(writing)
        writing.add_done_callback(partial(self._after, decisions))

    async def finish(self) -> None:
        """Wait until every decision is written or refused."""
        while self.under_way:
            await asyncio.wait(self.under_way)

    def _after(self, decisions: list[Transition], writing: asyncio.Future[list[bool]]) -> None:
        """Repeat a write that was cancelled because the whole loop is stopping; write one by one after an error."""
        self.under_way.discard(writing)
        if writing.cancelled():
            self.write(decisions)
            return
        error = writing.exception()
        if error is None:
            self._written(decisions, writing.result())
        elif len(decisions) > 1:
            for decision in decisions:
                self.write([decision])
        else:
            self._refused(decisions[0], error)
