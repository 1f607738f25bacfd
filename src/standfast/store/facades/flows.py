"""Workflows as the store's users see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standfast.job import Parent
from standfast.store.engine import Engine
from standfast.wings.workflows import graphs
from standfast.wings.workflows import scripts as workflows
from standfast.wings.workflows.graphs import Cancellation, Start, Started, StepRow, WorkflowRow

LONG = 60.0
"""Seconds a start or a cancellation may take: it is one transaction, however many steps there are."""


class Flows:
    """The verbs about workflows."""

    def __init__(self, engine: Callable[[], Engine[Any]], room: int) -> None:
        self._engine = engine
        self._room = room

    async def start(self, start: Start) -> Started:
        """Store a workflow with all its steps."""
        call = self._engine().call
        [answer] = await call(graphs.start, [start], seconds=LONG)
        return answer  # type: ignore[no-any-return]

    async def cancel(self, cancellation: Cancellation) -> bool:
        """End what is not final of a workflow, and ask what runs to stop; False if there is none of this id."""
        [known] = await self._engine().call(graphs.cancel, [cancellation], seconds=LONG)
        return known  # type: ignore[no-any-return]

    async def one(self, workflow: str) -> tuple[WorkflowRow, list[StepRow]] | None:
        """Read a workflow with its steps."""
        return await self._engine().read(graphs.one(workflow))

    async def listed(self, state: str | None, limit: int, before: str | None) -> list[WorkflowRow]:
        """Read workflows, the newest first."""
        return await self._engine().read(graphs.listed(state, limit, before))

    async def stuck(self, limit: int) -> list[tuple[str, str, int, int]]:
        """Read the workflows that stopped steps hold up."""
        return await self._engine().read(graphs.stuck(limit))

    async def parents(self, n: int) -> dict[str, Parent]:
        """Read what came of the steps before one, by name."""
        found = await self._engine().read(workflows.parents([n]))
        return found[n]

    def result_blocking(self, n: int) -> str | None:
        """Read the result of one step, as JSON text, for code that cannot wait for a loop."""
        return self._engine().read(graphs.result(n)).result()
