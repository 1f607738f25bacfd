"""Pages about dead letters: by what they stopped of, one by one, and redrives of many."""

from __future__ import annotations

from functools import partial
from typing import Any

from standfast.dashboard.page import Drawn, Visit
from standfast.errors import UnknownRequest
from standfast.failure import Class
from standfast.lifecycle import REPLAY_STATUSES
from standfast.server import visible as reached
from standfast.server.auth import check_queue
from standfast.server.seen import all_shown, seen, shown

FILTERS = ("queue", "reason_code", "cause", "class", "landed", "replay_status", "fingerprint", "older_than")
PAGE = 50
MOST_GROUPS = 50
REDRIVES = 20

Groups = list[dict[str, Any]]


async def listed(visit: Visit) -> Drawn:
    """Show letters by what they stopped of, and the newest of them."""
    chosen = visit.asked(*FILTERS)
    if "queue" in chosen:
        check_queue(visit.grant, chosen["queue"])
    page = await visit.sf.dead_letters.list(chosen, limit=PAGE, cursor=visit.cursor(), queues=visit.grant.queues)
    key = ("groups", *sorted(chosen.items()))
    told = await visit.beside.perhaps(key, partial(visit.sf.dead_letters.groups, chosen))
    age, groups = (None, []) if told is None else (told.age, told.value)
    reached = [group for group in groups if visit.grant.reaches(group["queue"])]
    context = {
        "letters": [seen(letter, visit.grant) for letter in page],
        "next_cursor": page.next_cursor,
        "groups": all_shown(reached[:MOST_GROUPS], visit.grant),
        "left_out": max(0, len(reached) - MOST_GROUPS),
        "total": sum(group["count"] for group in reached),
        "age": age,
        "asked": chosen,
        "classes": list(Class),
        "statuses": sorted(REPLAY_STATUSES),
        "scoped": visit.grant.queues is not None and "queue" not in chosen,
    }
    return Drawn("letters.html", context)


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
