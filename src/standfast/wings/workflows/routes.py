"""Routes about workflows."""

from __future__ import annotations

from typing import Any

from standfast.server import visible as reached
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import workflow_for
from standfast.wings.access.words import Right


async def _workflow(call: Call) -> dict[str, Any]:
    """Find a workflow if the caller may see all of its steps."""
    return await reached.workflow(call.sf, call.grant, call.path["id"])


async def workflow(call: Call) -> Answer:
    """Give a workflow with its steps."""
    return Answer(workflow_for(await _workflow(call), call.grant))


async def cancel_workflow(call: Call) -> Answer:
    """End a workflow that is no longer wanted."""
    await _workflow(call)
    return Answer(await call.sf.workflows.cancel(call.path["id"], by=call.grant.person))


ROUTES = (
    Route("GET", "/workflows/{id}", Right.READ, workflow, "Get a workflow with its steps"),
    Route("POST", "/workflows/{id}/cancel", Right.OPERATE, cancel_workflow, "Cancel a workflow"),
)
