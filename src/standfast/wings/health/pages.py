"""The first page, the page of a queue, and workers: how everything is doing, what is wrong first."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from standfast.dashboard.page import Drawn, Visit
from standfast.errors import UnknownQueue
from standfast.server.seen import (
    all_shown,
    gates_of,
    health_for,
    queue_of_issue,
    seen,
    shown,
    stats_for,
    worded,
    workers_for,
)
from standfast.wings.alerts.troubles import troubles
from standfast.wings.tokens.words import Grant

RECENT = 20


async def overview(visit: Visit) -> Drawn:
    """Show everything at once."""
    counted, judged = await asyncio.gather(visit.counted(), visit.health())
    whole = visit.grant.queues is None
    stats = stats_for(counted.value, visit.grant)
    health = health_for(judged, visit.grant, None if whole else counted.value)
    rows = rows_of(stats["queues"], visit.grant)
    context = {
        "stats": stats,
        "age": counted.age,
        "health": health,
        "issues": health["issues"],
        "troubles": troubles(health["issues"], health["alerts"], stats["queues"]),
        "rows": rows,
        "empty": not rows,
    }
    return Drawn("overview.html", context)


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
        "rules": shown(msgspec.to_builtins(found["rules"]), visit.grant),
        "jobs": [seen(job, visit.grant) for job in jobs],
        "gates": gates_of(stats["gates"], name, found["rules"], visit.grant),
        "troubles": troubles(issues, alerts, [name]),
    }
    return Drawn("queue.html", context)


async def workers(visit: Visit) -> Drawn:
    """Show who works."""
    stats = await visit.stats()
    spool = stats["spool"] if visit.grant.queues is None else None
    return Drawn("workers.html", {"workers": workers_for(stats["workers"], visit.grant), "spool": spool})
