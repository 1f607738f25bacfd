"""The page of schedules, in plain words."""

from __future__ import annotations

from standfast.dashboard.actions import Action, back
from standfast.dashboard.page import Drawn, Page, Visit
from standfast.server.seen import all_shown


async def schedules(visit: Visit) -> Drawn:
    """Show what comes by the clock."""
    found = (each for each in await visit.sf.schedules.list() if visit.grant.reaches(each["queue"]))
    return Drawn("schedules.html", {"schedules": all_shown(found, visit.grant)})


PAGES = (Page("/schedules", schedules),)
ACTIONS = (
    Action("/schedules/{name:path}/pause", "POST", "/schedules/{name}/pause", back("/schedules", "schedule-pause")),
    Action("/schedules/{name:path}/resume", "POST", "/schedules/{name}/resume", back("/schedules", "schedule-resume")),
    Action("/schedules/{name:path}/remove", "DELETE", "/schedules/{name}", back("/schedules", "schedule-remove")),
)
