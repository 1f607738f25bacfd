"""Pages about approvals: which ones wait for an answer, and what exactly a yes would do."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.job import HTTP
from standfast.server import visible as reached
from standfast.server.token_view import job_for, value_for, values_for
from standfast.views import JobView
from standfast.wings.access.words import Right
from standfast.wings.approvals.words import ApprovalState
from standfast.wings.audit.verbs import Decisions
from standfast.wings.records.view import one_of

PAGE = 100
AMENDMENTS = 20
LINKS_LOOKED_THROUGH = 10_000
"""The most links of the audit chain that the page of an approval goes through: it has no index by job."""


async def list_page(visit: Visit) -> RenderedPage:
    """Show approvals that wait for a person, or those already answered."""
    wanted_state = visit.form_values("state").get("state", "pending")
    state = None if wanted_state == "all" else one_of("state", wanted_state, ApprovalState)
    found = await visit.sf.approvals.list(state, queues=visit.grant.queues, limit=PAGE)
    context = {"approvals": values_for(found, visit.grant), "more": found.more}
    return RenderedPage("approvals.html", {**context, "state": state or "all", "states": list(ApprovalState)})


async def one(visit: Visit) -> RenderedPage:
    """Show exactly what would be approved: the letter as it is now, its amendments, the rule, and who asked."""
    approval = await reached.approval(visit.sf, visit.grant, visit.path["id"])
    letter = None if approval["job"] is None else await visit.sf.status(approval["job"])
    amendments = Decisions() if letter is None else await _amendments(visit, letter)
    groups = {*visit.grant.groups, *await visit.sf.shared_settings.groups_of(visit.grant.person)}
    shown = value_for(approval, visit.grant)
    context = {
        "approval": shown,
        "effect": _on_approval(shown, letter),
        "job": None if letter is None else job_for(letter, visit.grant),
        "same": letter is not None and letter.payload_sha256 == approval["payload_sha256"],
        "in_force": visit.sf.policy.snapshot == approval["snapshot"],
        "amendments": values_for(amendments, visit.grant),
        "amended_earlier": amendments.since is not None,
        "redrive": await _redrive(visit, approval["redrive"]),
        "own": visit.grant.person in {approval["asked_by"], *(() if letter is None else letter.requesters)},
        "missing": sorted({*approval["approver_groups"]} - groups),
        "whole": visit.grant.may(Right.READ_PAYLOADS),
    }
    return RenderedPage("approval.html", context)


def _on_approval(approval: dict[str, Any], letter: JobView | None) -> str:
    """Say what a yes does, in a sentence; the target of a request names its method and URL."""
    target: str = approval["target"]
    if letter is None:
        return target
    if letter.handler == HTTP:
        return f"queue {letter.queue} sends this request again: {target.removeprefix(f'{letter.queue}/{HTTP} ')}"
    return f"handler {letter.handler} of queue {letter.queue} runs again"


async def _amendments(visit: Visit, letter: JobView) -> Decisions:
    """Return the last amendments of a letter; its generation says how many there are."""
    number = min(AMENDMENTS, letter.generation)
    if not number:
        return Decisions()
    return await visit.sf.audit.last(number, job=letter.id, kind="amend", within=LINKS_LOOKED_THROUGH)


async def _redrive(visit: Visit, id: str | None) -> dict[str, Any] | None:  # noqa: A002 - as everywhere
    return None if id is None else value_for(await visit.sf.dead_letters.redrives.progress(id), visit.grant)


PAGES = (Page("/approvals", list_page), Page("/approvals/{id}", one))
ACTIONS = (
    Action(
        "/approvals/{id}/approve",
        "POST",
        "/approvals/{id}/approve",
        ReturnTo("/approvals/{id}", "approve", "Approved: what was asked for is performed."),
    ),
    Action("/approvals/{id}/deny", "POST", "/approvals/{id}/deny", ReturnTo("/approvals/{id}", "deny", "Denied.")),
)
