"""Pages about redrives, and the form that plans one."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.errors import UnknownRequest
from standfast.server import visible as reached
from standfast.server.route import Call
from standfast.server.token_view import value_for, values_for

REDRIVES = 20


async def redrives(visit: Visit) -> RenderedPage:
    """Show redrives, the newest first."""
    found = await visit.sf.dead_letters.redrives.list(limit=REDRIVES)
    return RenderedPage("redrives.html", {"redrives": [each for each in found if await _reached(visit, each["id"])]})


async def redrive(visit: Visit) -> RenderedPage:
    """Show the progress of one redrive."""
    if not await _reached(visit, visit.path["id"]):
        raise UnknownRequest.for_id("redrive", visit.path["id"])
    found = value_for(await visit.sf.dead_letters.redrives.progress(visit.path["id"]), visit.grant)
    settled = found["letters"] - found["waiting"] - found["running"]
    failures = await visit.sf.dead_letters.redrives.failures(visit.path["id"]) if found["failed"] else []
    context = {"redrive": found, "settled": settled, "failures": values_for(failures, visit.grant)}
    return RenderedPage("redrive.html", context)


async def _reached(visit: Visit, redrive: str) -> bool:
    """Return whether a visitor may see a redrive: one over all queues is only for tokens that reach them all."""
    return await reached.reaches_redrive(visit.sf, visit.grant, redrive)


def _planned(call: Call, said: Any) -> RenderedPage:
    return RenderedPage("plan.html", {"plan": said, "filter": call.body.filter.chosen()})


PAGES = (Page("/redrives", redrives), Page("/redrives/{id}", redrive))
ACTIONS = (
    Action("/dead-letters/plan", "POST", "/dead-letters/plan", _planned),
    Action(
        "/redrives",
        "POST",
        "/redrives",
        ReturnTo("/redrives/{id}", "redrive", "The redrive is on disk and goes on in any worker."),
    ),
    Action(
        "/redrives/{id}/pause",
        "POST",
        "/redrives/{id}/pause",
        ReturnTo("/redrives/{id}", "redrive-pause", "The redrive is paused; what was replayed goes on."),
    ),
    Action(
        "/redrives/{id}/resume",
        "POST",
        "/redrives/{id}/resume",
        ReturnTo("/redrives/{id}", "redrive-resume", "The redrive goes on."),
    ),
    Action(
        "/redrives/{id}/cancel",
        "POST",
        "/redrives/{id}/cancel",
        ReturnTo("/redrives/{id}", "redrive-cancel", "The redrive is over; the rest of the letters stays as it is."),
    ),
)
