"""The audit chain as the store's users see it: links to read, decisions to add, and what was noted outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from standfast.store.engine import Engine
from standfast.wings.audit import anchor
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.anchor import Misfit
from standfast.wings.audit.scripts import Noted
from standfast.wings.audit.words import Decision, Head, Link

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""


class Trail:
    """The verbs about the chain."""

    def __init__(self, engine: Callable[[], Engine[Any]]) -> None:
        self._engine = engine

    async def add(self, decisions: Sequence[Decision]) -> None:
        """Chain decisions that change nothing else in the store; on disk when this returns."""
        await self._engine().call(audit.note, decisions, seconds=PATIENCE)

    def add_blocking(self, decisions: Sequence[Decision]) -> None:
        """Do the same for a caller without a loop."""
        self._engine().call(audit.note, decisions, seconds=PATIENCE).result()

    async def head(self) -> Noted | None:
        """Read whose chain this is and how far it has come; None before the first decision."""
        return await self._engine().read(audit.peek())

    async def links(self, after: int, limit: int, job: str | None = None, kind: str | None = None) -> list[Link]:
        """Read links behind a number; with `job` or `kind`, those that may tell of it."""
        return await self._engine().read(audit.links(after, limit, job, kind))

    async def hashes(self, numbers: Sequence[int]) -> dict[int, str]:
        """Read the hashes of these links."""
        return await self._engine().read(audit.hashes(numbers))

    @property
    def path(self) -> str | None:
        """The file outside where heads are noted; None where there is none."""
        return self._engine().anchor.path

    def noted_so_far(self) -> int:
        """Tell how much was noted outside by now. What is noted was committed before."""
        return anchor.size(self._engine().anchor.path)

    def misfits(self, upto: int) -> list[Misfit]:
        """Read what is noted outside and is no head."""
        path = self._engine().anchor.path
        return [] if path is None or not upto else list(anchor.misfits(path, upto))

    def anchors(self, upto: int) -> Iterator[Sequence[Head]]:
        """Read the heads that were noted outside, in bites; `upto` is what `noted_so_far` told."""
        path = self._engine().anchor.path
        return iter(()) if path is None or not upto else anchor.noted(path, upto)
