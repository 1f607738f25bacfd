"""Routes about approvals."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from standfast.server import visible as reached
from standfast.server.fields import Reason
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import value_for, values_for
from standfast.wings.access.words import Right
from standfast.wings.approvals.shapes import ApprovalList, ApprovalOutcome, ShownApproval


class WantedApprovals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which approvals to list."""

    state: str | None = "pending"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Denial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the approval is denied."""

    reason: Reason


async def approvals(call: Call) -> Answer:
    """List the approvals that wait for a person's answer."""
    wanted: WantedApprovals = call.query
    state = None if wanted.state == "all" else wanted.state
    found = await call.sf.approvals.list(state, queues=call.grant.queues, limit=wanted.limit)
    return Answer({"items": values_for(found, call.grant), "more": found.more})


async def one(call: Call) -> Answer:
    """Return one approval."""
    return Answer(value_for(await reached.approval(call.sf, call.grant, call.path["id"]), call.grant))


async def _approval_id(call: Call) -> str:
    """Find the approval that a path names, if the caller may see it."""
    return str((await reached.approval(call.sf, call.grant, call.path["id"]))["id"])


async def approve(call: Call) -> Answer:
    """Approve; the replay is performed. A token made for sessions is an agent's, and only a person may approve."""
    grant = call.grant
    if grant.is_agent:
        hint = "Have a person approve it, with a token made without --sessions."
        raise Problem(403, "forbidden", "the token was made for an agent's sessions, and agents approve nothing", hint)
    by: dict[str, Any] = {"by": grant.person, "groups": grant.groups, "token": None if grant.host else grant.id}
    return Answer(await call.sf.approvals.approve(await _approval_id(call), **by))


async def deny(call: Call) -> Answer:
    """Deny."""
    return Answer(await call.sf.approvals.deny(await _approval_id(call), by=call.grant.person, reason=call.body.reason))


_APPROVAL = "/approvals/{id}"

ROUTES = (
    Route("GET", "/approvals", Right.READ, approvals, "List approvals", query=WantedApprovals, answer=ApprovalList),
    Route("GET", _APPROVAL, Right.READ, one, "Get one approval", answer=ShownApproval),
    Route(
        "POST",
        f"{_APPROVAL}/approve",
        Right.APPROVE,
        approve,
        "Approve; the replay is performed",
        answer=ApprovalOutcome,
    ),
    Route("POST", f"{_APPROVAL}/deny", Right.APPROVE, deny, "Deny an approval", body=Denial, answer=ApprovalOutcome),
)
