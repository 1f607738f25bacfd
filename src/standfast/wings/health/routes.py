"""Routes about the whole: counts and health."""

from __future__ import annotations

from standfast.server import visible as reached
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import stats_for, workers_for
from standfast.wings.access.words import Right
from standfast.wings.health.shapes import Health, Stats, WorkerList


async def stats(call: Call) -> Answer:
    """Count what is there."""
    return Answer(stats_for(await call.sf.stats(), call.grant))


async def health(call: Call) -> Answer:
    """Judge the queue; to a token that reaches some queues, only these."""
    return Answer(await reached.health(call.sf, call.grant))


async def workers(call: Call) -> Answer:
    """Tell who runs what; to a token that reaches some queues, only what is of these."""
    return Answer({"items": workers_for(await call.sf.workers(), call.grant)})


ROUTES = (
    Route("GET", "/stats", Right.READ, stats, "Get counts of jobs", answer=Stats),
    Route("GET", "/health", Right.READ, health, "Report health", answer=Health),
    Route("GET", "/workers", Right.READ, workers, "List live workers and what they run", answer=WorkerList),
)
