"""Pages about dead letters: by what they stopped of, one by one, and redrives of many."""

from __future__ import annotations

from functools import partial
from typing import Any

from standfast.access import Right
from standfast.dashboard.pages import Drawn, Visit
from standfast.failure import Class
from standfast.lifecycle import REPLAY_STATUSES
from standfast.redact import redacted_text
from standfast.server.auth import check_queue
from standfast.server.seen import seen

FILTERS = ("queue", "reason_code", "class", "landed", "replay_status", "fingerprint", "older_than")
PAGE = 50
MOST_GROUPS = 50
REDRIVES = 20

Groups = list[dict[str, Any]]


async def listed(visit: Visit) -> Drawn:
    """Show letters by what they stopped of, and the newest of them."""
    chosen = visit.asked(*FILTERS)
    if "queue" in chosen:
        check_queue(visit.grant, chosen["queue"])
    page = await visit.sf.dead_letters.list(chosen, limit=PAGE, cursor=visit.cursor())
    key = ("groups", *sorted(chosen.items()))
    told = await visit.beside.perhaps(key, partial(visit.sf.dead_letters.groups, chosen))
    age, groups = (None, []) if told is None else (told.age, told.value)
    reached = [group for group in groups if visit.grant.reaches(group["queue"])]
    context = {
        "letters": [seen(letter, visit.grant) for letter in page if visit.grant.reaches(letter.queue)],
        "next_cursor": page.next_cursor,
        "groups": _worded(reached[:MOST_GROUPS], visit),
        "left_out": max(0, len(reached) - MOST_GROUPS),
        "total": sum(group["count"] for group in reached),
        "age": age,
        "asked": chosen,
        "classes": list(Class),
        "statuses": sorted(REPLAY_STATUSES),
        "scoped": visit.grant.queues is not None and "queue" not in chosen,
    }
    return Drawn("letters.html", context)


def _worded(groups: Groups, visit: Visit) -> Groups:
    """Take secrets out of what is shown to those who do not read payloads."""
    if visit.grant.may(Right.READ_PAYLOADS):
        return groups
    return [{**group, "message": redacted_text(group["message"] or "")} for group in groups]


async def redrives(visit: Visit) -> Drawn:
    """Show redrives, the newest first."""
    return Drawn("redrives.html", {"redrives": await visit.sf.dead_letters.redrives.list(limit=REDRIVES)})


async def redrive(visit: Visit) -> Drawn:
    """Show how far one has come."""
    found = await visit.sf.dead_letters.redrives.progress(visit.path["id"])
    settled = found["letters"] - found["waiting"] - found["running"]
    return Drawn("redrive.html", {"redrive": found, "settled": settled})
