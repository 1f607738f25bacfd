"""The first page, which shows the state of everything, problems first; and the page of workers."""

from __future__ import annotations

import asyncio

from standfast.dashboard.incidents import incidents
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.server.token_view import health_for, stats_for, workers_for
from standfast.wings.health.health_words import at_rest
from standfast.wings.queues.pages import rows_of


async def overview(visit: Visit) -> RenderedPage:
    """Show everything at once."""
    counted, judged = await asyncio.gather(visit.cached_stats(), visit.health())
    whole = visit.grant.queues is None
    stats = stats_for(counted.value, visit.grant)
    health = health_for(judged, visit.grant, None if whole else counted.value)
    rows = rows_of(stats["queues"], visit.grant)
    context = {
        "stats": stats,
        "age": counted.age,
        "health": health,
        "issues": health["issues"],
        "at_rest": at_rest(health),
        "incidents": incidents(health["issues"], health["alerts"], stats["queues"]),
        "rows": rows,
        "empty": not rows,
    }
    return RenderedPage("overview.html", context)


async def workers(visit: Visit) -> RenderedPage:
    """Show the workers."""
    stats = await visit.stats()
    spool = stats["spool"] if visit.grant.queues is None else None
    return RenderedPage("workers.html", {"workers": workers_for(stats["workers"], visit.grant), "spool": spool})


PAGES = (Page("/", overview), Page("/workers", workers))
