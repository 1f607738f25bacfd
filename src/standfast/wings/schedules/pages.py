"""The page of schedules, in plain words."""

from __future__ import annotations

from standfast.dashboard.actions import Action, Back
from standfast.dashboard.page import Drawn, Page, Visit
from standfast.server.seen import all_shown


async def schedules(visit: Visit) -> Drawn:
    """Show what comes by the clock."""
    found = (each for each in await visit.sf.schedules.list() if visit.grant.reaches(each["queue"]))
    return Drawn("schedules.html", {"schedules": all_shown(found, visit.grant)})


PAGES = (Page("/schedules", schedules),)
ACTIONS = (
    Action(
        "/schedules/{name:path}/pause",
        "POST",
        "/schedules/{name}/pause",
        Back("/schedules", "schedule-pause", "The schedule is paused."),
    ),
    Action(
        "/schedules/{name:path}/resume",
        "POST",
        "/schedules/{name}/resume",
        Back("/schedules", "schedule-resume", "The schedule goes on with its next regular tick."),
    ),
    Action(
        "/schedules/{name:path}/remove",
        "DELETE",
        "/schedules/{name}",
        Back("/schedules", "schedule-remove", "The schedule is gone; the jobs it enqueued go on."),
    ),
)
