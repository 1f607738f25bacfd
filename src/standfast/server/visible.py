"""What a caller names by its id, if its token may know of it; else it is unknown. The same at every door."""

from __future__ import annotations

from typing import Any

from standfast.application import Standfast
from standfast.errors import UnknownJob, UnknownRequest
from standfast.server.auth import reaches
from standfast.server.token_view import health_for, may_read
from standfast.views import JobView
from standfast.wings.access.words import Grant
from standfast.wings.jobs.verbs import Snapshot


async def perhaps_job(sf: Standfast, grant: Grant, named: str) -> JobView | None:
    """Find a job."""
    job = await sf.status(named)
    return job if job is not None and _reached(job, grant) else None


async def job(sf: Standfast, grant: Grant, named: str) -> JobView:
    """Find a job that must be there."""
    found = await perhaps_job(sf, grant, named)
    if found is None:
        raise UnknownJob.for_id(named)
    return found


async def snapshot(sf: Standfast, grant: Grant, named: str) -> Snapshot:
    """Find a job that must be there, with what explains it as it was then."""
    found = await sf.snapshot(named)
    if found is None or not _reached(found.job, grant):
        raise UnknownJob.for_id(named)
    return found


def _reached(job: JobView, grant: Grant) -> bool:
    return grant.reaches(job.queue) and may_read(job, grant)


async def takes_work(sf: Standfast, grant: Grant, queue: str) -> bool:
    """Tell whether a token may bring work to a queue: one it was made for, else one that a process published."""
    return grant.reaches(queue) if grant.queues is not None else await sf.queues.published(queue)


async def approval(sf: Standfast, grant: Grant, named: str) -> dict[str, Any]:
    """Find an approval; one of a whole redrive may be of no one queue."""
    found = await sf.approvals.get(named)
    if not reaches(grant, found["queue"]):
        raise UnknownRequest.for_id("approval", named)
    return found


async def workflow(sf: Standfast, grant: Grant, named: str) -> dict[str, Any]:
    """Find a workflow all of whose steps are within reach."""
    found = await sf.workflows.get(named)
    if not all(grant.reaches(step["queue"]) for step in found["steps"].values()):
        raise UnknownRequest.for_id("workflow", named)
    return found


async def reaches_redrive(sf: Standfast, grant: Grant, named: str) -> bool:
    """Tell whether a plan or redrive is within reach: one of all queues is for those who reach them all."""
    return grant.queues is None or reaches(grant, await sf.dead_letters.redrives.queue_of(named))


async def health(sf: Standfast, grant: Grant) -> dict[str, Any]:
    """Judge the queue; to a token that reaches some queues, only these."""
    stats = None if grant.queues is None else await sf.stats()
    return health_for(await sf.health(), grant, stats)
