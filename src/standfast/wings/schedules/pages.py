"""The page of schedules, in plain words."""

from __future__ import annotations

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.server.token_view import values_for


async def schedules(visit: Visit) -> RenderedPage:
    """Show the schedules."""
    found = (each for each in await visit.sf.schedules.list() if visit.grant.reaches(each["queue"]))
    return RenderedPage("schedules.html", {"schedules": values_for(found, visit.grant)})


PAGES = (Page("/schedules", schedules),)
ACTIONS = (
    Action(
        "/schedules/{name:path}/pause",
        "POST",
        "/schedules/{name}/pause",
        ReturnTo("/schedules", "schedule-pause", "The schedule is paused."),
    ),
    Action(
        "/schedules/{name:path}/resume",
        "POST",
        "/schedules/{name}/resume",
        ReturnTo("/schedules", "schedule-resume", "The schedule goes on with its next regular tick."),
    ),
    Action(
        "/schedules/{name:path}/remove",
        "DELETE",
        "/schedules/{name}",
        ReturnTo("/schedules", "schedule-remove", "The schedule is gone; the jobs it enqueued go on."),
    ),
)
