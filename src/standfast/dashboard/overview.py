"""The first page, the page of a queue, and workers: how everything is doing, what is wrong first."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from standfast.access import Grant
from standfast.dashboard.pages import Drawn, Visit
from standfast.errors import UnknownQueue
from standfast.server.seen import seen

RECENT = 20


async def overview(visit: Visit) -> Drawn:
    """Show everything at once."""
    stats, health = await asyncio.gather(visit.stats(), visit.health())
    rows = rows_of(stats["queues"], visit.grant)
    context = {
        "stats": stats,
        "health": health,
        "issues": _in_reach(health["issues"], visit.grant),
        "rows": rows,
        "empty": not rows,
    }
    return Drawn("overview.html", context)


def rows_of(queues: dict[str, dict[str, Any]], grant: Grant) -> list[tuple[str, dict[str, Any]]]:
    """Give the queues somebody reaches: what needs somebody first, then what is busy."""
    reached = [(name, each) for name, each in queues.items() if grant.reaches(name)]
    return sorted(reached, key=lambda row: (-row[1]["letters"], -row[1]["due"], row[0]))


def _in_reach(issues: list[str], grant: Grant) -> list[str]:
    """Leave out what is said of queues that a token does not reach."""
    if grant.queues is None:
        return issues
    return [issue for issue in issues if issue.partition(":")[0] in grant.queues]


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
    context = {
        "name": name,
        "queue": found,
        "rules": msgspec.to_builtins(found["rules"]),
        "jobs": [seen(job, visit.grant) for job in jobs],
        "gates": [gate for gate in stats["gates"] if f":{name}" in gate["key"]],
        "issues": [each for each in health["issues"] if each.startswith(f"{name}:")],
    }
    return Drawn("queue.html", context)


async def workers(visit: Visit) -> Drawn:
    """Show who works."""
    stats = await visit.stats()
    return Drawn("workers.html", {"workers": stats["workers"], "gates": stats["gates"], "spool": stats["spool"]})
