"""Pages about approvals: what waits for an answer, and what exactly a yes would do."""

from __future__ import annotations

from typing import Any

from standfast.access import Right
from standfast.approval import Standing
from standfast.dashboard.pages import Drawn, Visit
from standfast.errors import UnknownRequest
from standfast.job import JobView
from standfast.redact import redacted
from standfast.server.seen import seen

PAGE = 100
AMENDMENTS = 20


async def listed(visit: Visit) -> Drawn:
    """Show what waits for a person, or what was answered."""
    asked = visit.asked("state").get("state", "pending")
    state = asked if asked in set(Standing) else None
    found = await visit.sf.approvals.list(state, limit=PAGE)
    reached = [each for each in found if _reaches(visit, each)]
    return Drawn("approvals.html", {"approvals": reached, "state": state or "all", "states": list(Standing)})


def _reaches(visit: Visit, approval: dict[str, Any]) -> bool:
    """Tell whether somebody may know of it: a whole redrive is of no one queue."""
    return visit.grant.queues is None or (approval["queue"] is not None and visit.grant.reaches(approval["queue"]))


async def one(visit: Visit) -> Drawn:
    """Show exactly what would be approved: the letter as it stands, what was changed of it, the rule, who asked."""
    approval = await visit.sf.approvals.get(visit.path["id"])
    if not _reaches(visit, approval):
        raise UnknownRequest.named("approval", visit.path["id"])
    letter = None if approval["job"] is None else await visit.sf.status(approval["job"])
    amendments = [] if letter is None else await _amendments(visit, letter)
    context = {
        "approval": approval,
        "job": None if letter is None else seen(letter, visit.grant),
        "same": letter is not None and letter.payload_sha256 == approval["payload_sha256"],
        "in_force": visit.sf.policy.snapshot == approval["snapshot"],
        "amendments": amendments,
        "redrive": await _redrive(visit, approval["redrive"]),
        "own": visit.grant.person in {approval["asked_by"], None if letter is None else letter.requester},
        "missing": sorted({*approval["approver_groups"]} - {*visit.grant.groups}),
        "whole": visit.grant.may(Right.READ_PAYLOADS),
    }
    return Drawn("approval.html", context)


async def _amendments(visit: Visit, letter: JobView) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await visit.sf.audit.last(AMENDMENTS, job=letter.id, kind="amend")
    return found if visit.grant.may(Right.READ_PAYLOADS) else [redacted(each) for each in found]


async def _redrive(visit: Visit, id: str | None) -> dict[str, Any] | None:  # noqa: A002 - as everywhere
    return None if id is None else await visit.sf.dead_letters.redrives.progress(id)
