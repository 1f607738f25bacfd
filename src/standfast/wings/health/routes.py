"""Routes about the whole store: counts, health, workers."""

from __future__ import annotations

from standfast.server import visible as reached
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import stats_for, workers_for
from standfast.wings.access.words import Right
from standfast.wings.health.shapes import Health, Stats, WorkerList


async def stats(call: Call) -> Answer:
    """Return the counts."""
    return Answer(stats_for(await call.sf.stats(), call.grant))


async def health(call: Call) -> Answer:
    """Judge the queues; a token for some queues gets only these."""
    return Answer(await reached.health(call.sf, call.grant))


async def workers(call: Call) -> Answer:
    """List who runs what; a token for some queues gets only these."""
    return Answer({"items": workers_for(await call.sf.workers(), call.grant)})


ROUTES = (
    Route("GET", "/stats", Right.READ, stats, "Get counts of jobs", answer=Stats),
    Route("GET", "/health", Right.READ, health, "Report health", answer=Health),
    Route("GET", "/workers", Right.READ, workers, "List live workers and what they run", answer=WorkerList),
)
