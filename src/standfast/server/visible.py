"""Look-ups by id that respect a token's reach: what it may not see is unknown. The same for REST, pages and MCP."""

from __future__ import annotations

from typing import Any

from standfast.application import Standfast
from standfast.errors import UnknownRequest
from standfast.server.auth import reaches
from standfast.server.token_view import health_for, may_read
from standfast.views import JobView
from standfast.wings.access.words import Grant
from standfast.wings.jobs.verbs import Snapshot


async def perhaps_job(sf: Standfast, grant: Grant, named: str) -> JobView | None:
    """Find a job, or None."""
    job = await sf.status(named)
    return job if job is not None and _reached(job, grant) else None


async def job(sf: Standfast, grant: Grant, named: str) -> JobView:
    """Find a job, which must exist."""
    found = await perhaps_job(sf, grant, named)
    if found is None:
        raise await sf.unknown_job(named)
    return found


async def snapshot(sf: Standfast, grant: Grant, named: str) -> Snapshot:
    """Find a job, which must exist, with what explains it at the same moment."""
    found = await sf.snapshot(named)
    if found is None or not _reached(found.job, grant):
        raise await sf.unknown_job(named)
    return found


def _reached(job: JobView, grant: Grant) -> bool:
    return grant.reaches(job.queue) and may_read(job, grant)


async def takes_work(sf: Standfast, grant: Grant, queue: str) -> bool:
    """Return whether a token may enqueue to a queue: one the token lists, or if it lists none, a published one."""
    return grant.reaches(queue) if grant.queues is not None else await sf.queues.published(queue)


async def approval(sf: Standfast, grant: Grant, named: str) -> dict[str, Any]:
    """Find an approval; the approval of a whole redrive may belong to no single queue."""
    found = await sf.approvals.get(named)
    if not reaches(grant, found["queue"]):
        raise UnknownRequest.for_id("approval", named)
    return found


async def workflow(sf: Standfast, grant: Grant, named: str) -> dict[str, Any]:
    """Find a workflow; the token must reach the queues of all its steps."""
    found = await sf.workflows.get(named)
    if not all(grant.reaches(step["queue"]) for step in found["steps"].values()):
        raise UnknownRequest.for_id("workflow", named)
    return found


async def reaches_redrive(sf: Standfast, grant: Grant, named: str) -> bool:
    """Return whether a token reaches a plan or redrive; one over all queues needs a token that reaches all queues."""
    return grant.queues is None or reaches(grant, await sf.dead_letters.redrives.queue_of(named))


async def health(sf: Standfast, grant: Grant) -> dict[str, Any]:
    """Judge health; for a token that reaches only some queues, of those queues only."""
    stats = None if grant.queues is None else await sf.stats()
    return health_for(await sf.health(), grant, stats)
