"""Routes about workflows."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.server import visible as reached
from standfast.server.auth import check_whole
from standfast.server.fields import Limit
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import values_for, workflow_for
from standfast.wings.access.words import Right
from standfast.wings.workflows.shapes import ShownWorkflow, WorkflowPage
from standfast.wings.workflows.words import Progress


class WantedWorkflows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which workflows."""

    state: Progress | None = None
    limit: Limit = 50
    cursor: str | None = None


async def workflows(call: Call) -> Answer:
    """List workflows, the newest first. Needs access to all queues: a list does not say which queues steps are in."""
    check_whole(call.grant, "Ask for a workflow by its id.")
    wanted: WantedWorkflows = call.query
    found = await call.sf.workflows.list(wanted.state, limit=wanted.limit + 1, cursor=wanted.cursor)
    shown = found[: wanted.limit]
    more = shown[-1]["id"] if len(found) > wanted.limit else None
    return Answer({"items": values_for(shown, call.grant), "next_cursor": more})


async def _workflow(call: Call) -> dict[str, Any]:
    """Find a workflow if the caller may see all of its steps."""
    return await reached.workflow(call.sf, call.grant, call.path["id"])


async def workflow(call: Call) -> Answer:
    """Return a workflow with its steps."""
    return Answer(workflow_for(await _workflow(call), call.grant))


async def cancel_workflow(call: Call) -> Answer:
    """End a workflow that is no longer wanted."""
    await _workflow(call)
    return Answer(await call.sf.workflows.cancel(call.path["id"], by=call.grant.person))


ROUTES = (
    Route(
        "GET",
        "/workflows",
        Right.READ,
        workflows,
        "List workflows, the newest first",
        query=WantedWorkflows,
        answer=WorkflowPage,
    ),
    Route("GET", "/workflows/{id}", Right.READ, workflow, "Get a workflow with its steps", answer=ShownWorkflow),
    Route("POST", "/workflows/{id}/cancel", Right.OPERATE, cancel_workflow, "Cancel a workflow", answer=ShownWorkflow),
)
