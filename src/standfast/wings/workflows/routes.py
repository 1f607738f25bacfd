"""Routes about workflows."""

from __future__ import annotations

from typing import Any

from standfast.server import visible as reached
from standfast.server.route import Answer, Call, Route
from standfast.server.seen import workflow_shown
from standfast.wings.access.words import Right


async def _workflow(call: Call) -> dict[str, Any]:
    """Find a workflow all of whose steps whoever asks may know of."""
    return await reached.workflow(call.sf, call.grant, call.path["id"])


async def workflow(call: Call) -> Answer:
    """Give a workflow with its steps."""
    return Answer(workflow_shown(await _workflow(call), call.grant))


async def cancel_workflow(call: Call) -> Answer:
    """End a workflow that is not wanted any more."""
    await _workflow(call)
    return Answer(await call.sf.workflows.cancel(call.path["id"], by=call.grant.person))


ROUTES = (
    Route("GET", "/workflows/{id}", Right.READ, workflow, "Give a workflow with its steps"),
    Route("POST", "/workflows/{id}/cancel", Right.OPERATE, cancel_workflow, "End a workflow"),
)
