"""Pages about redrives, and the form that plans one."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action, Back
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
    """Tell whether a visitor may know of a redrive: one of letters of all queues is for tokens that reach them all."""
    return await reached.reaches_redrive(visit.sf, visit.grant, redrive)


def _planned(call: Call, said: Any) -> Drawn:
    return Drawn("plan.html", {"plan": said, "filter": call.body.filter.chosen()})


PAGES = (Page("/redrives", redrives), Page("/redrives/{id}", redrive))
ACTIONS = (
    Action("/dead-letters/plan", "POST", "/dead-letters/plan", _planned),
    Action(
        "/redrives",
        "POST",
        "/redrives",
        Back("/redrives/{id}", "redrive", "The redrive is on disk and goes on in any worker."),
    ),
    Action(
        "/redrives/{id}/pause",
        "POST",
        "/redrives/{id}/pause",
        Back("/redrives/{id}", "redrive-pause", "The redrive is paused; what was replayed goes on."),
    ),
    Action(
        "/redrives/{id}/resume",
        "POST",
        "/redrives/{id}/resume",
        Back("/redrives/{id}", "redrive-resume", "The redrive goes on."),
    ),
    Action(
        "/redrives/{id}/cancel",
        "POST",
        "/redrives/{id}/cancel",
        Back("/redrives/{id}", "redrive-cancel", "The redrive is over; the rest of the letters stays as it is."),
    ),
)
