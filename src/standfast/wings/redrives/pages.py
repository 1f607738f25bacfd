"""Pages about redrives, and the form that plans one."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action, back
from standfast.dashboard.page import Drawn, Page, Visit
from standfast.errors import UnknownRequest
from standfast.server import visible as reached
from standfast.server.route import Call
from standfast.server.seen import shown

REDRIVES = 20


async def redrives(visit: Visit) -> Drawn:
    """Show redrives, the newest first."""
    found = await visit.sf.dead_letters.redrives.list(limit=REDRIVES)
    return Drawn("redrives.html", {"redrives": [each for each in found if await _reached(visit, each["id"])]})


async def redrive(visit: Visit) -> Drawn:
    """Show how far one has come."""
    if not await _reached(visit, visit.path["id"]):
        raise UnknownRequest.named("redrive", visit.path["id"])
    found = shown(await visit.sf.dead_letters.redrives.progress(visit.path["id"]), visit.grant)
    settled = found["letters"] - found["waiting"] - found["running"]
    return Drawn("redrive.html", {"redrive": found, "settled": settled})


async def _reached(visit: Visit, redrive: str) -> bool:
    """Tell whether somebody may know of a redrive: one of letters of all queues is for those who reach them all."""
    return await reached.reaches_redrive(visit.sf, visit.grant, redrive)


def _planned(call: Call, said: Any) -> Drawn:
    return Drawn("plan.html", {"plan": said, "filter": call.body.filter.chosen()})


PAGES = (Page("/redrives", redrives), Page("/redrives/{id}", redrive))
ACTIONS = (
    Action("/dead-letters/plan", "POST", "/dead-letters/plan", _planned),
    Action("/redrives", "POST", "/redrives", back("/redrives/{id}", "redrive")),
    Action("/redrives/{id}/pause", "POST", "/redrives/{id}/pause", back("/redrives/{id}", "redrive-pause")),
    Action("/redrives/{id}/resume", "POST", "/redrives/{id}/resume", back("/redrives/{id}", "redrive-resume")),
    Action("/redrives/{id}/cancel", "POST", "/redrives/{id}/cancel", back("/redrives/{id}", "redrive-cancel")),
)
