"""Pages about queues: all of them, and one with its rules and its newest jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from standfast.dashboard.actions import Action, Back
from standfast.dashboard.incidents import incidents
from standfast.dashboard.page import Drawn, Page, Visit
from standfast.errors import UnknownQueue
from standfast.server.seen import all_shown, gates_of, queue_of_issue, seen, worded
from standfast.wings.tokens.words import Grant

RECENT = 20


def rows_of(queues: dict[str, dict[str, Any]], grant: Grant) -> list[tuple[str, dict[str, Any]]]:
    """Give the queues somebody reaches: what needs somebody first, then what is busy."""
    reached = [(name, each) for name, each in queues.items() if grant.reaches(name)]
    return sorted(reached, key=lambda row: (-row[1]["letters"], -row[1]["due"], row[0]))


async def queues(visit: Visit) -> Drawn:
    """Show every queue."""
    return Drawn("queues.html", {"rows": rows_of(await visit.queues(), visit.grant)})


async def queue(visit: Visit) -> Drawn:
    """Show one queue: what it holds, its rules, and its newest jobs."""
    name = visit.path["name"]
    jobs = await visit.sf.jobs(queue=name, limit=RECENT)  # before what takes long: the store reads one after the other
    queues, stats, health = await asyncio.gather(visit.queues(), visit.stats(), visit.health())
    found = queues.get(name) if visit.grant.reaches(name) else None
    if found is None:
        raise UnknownQueue(f"no queue is named {name!r}")
    issues = [worded(each, visit.grant) for each in health["issues"] if queue_of_issue(each, queues) == name]
    alerts = all_shown((each for each in health["alerts"] if each["queue"] == name), visit.grant)
    context = {
        "name": name,
        "queue": found,
        "rules": msgspec.to_builtins(found["rules"]),
        "jobs": [seen(job, visit.grant) for job in jobs],
        "gates": gates_of(stats["gates"], name, found["rules"], visit.grant),
        "incidents": incidents(issues, alerts, [name]),
    }
    return Drawn("queue.html", context)


PAGES = (Page("/queues", queues), Page("/queues/{name:path}", queue))
ACTIONS = (
    Action(
        "/queues/{name:path}/pause",
        "POST",
        "/queues/{name}/pause",
        Back("/queues/{name}", "pause", "The queue is paused: nothing more of it starts."),
    ),
    Action(
        "/queues/{name:path}/resume",
        "POST",
        "/queues/{name}/resume",
        Back("/queues/{name}", "resume", "The queue goes on."),
    ),
)
