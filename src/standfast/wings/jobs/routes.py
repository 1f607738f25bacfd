"""Routes about jobs: taking them in, looking at them, retrying and cancelling them."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.server.auth import agent_session, check_queue
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import SAID, as_caller, check_takes_work, found_job, set_options
from standfast.server.token_view import job_for, own_only, result_for, text_for
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import reply
from standfast.wings.jobs.job_query import WantedJobs

CREATED, OK = 201, 200


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An HTTP request that a worker shall send."""

    method: str
    url: str
    headers: dict[str, str] | None = None
    body: Any = None


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to be taken in. `http` instead of `payload` for a request that a worker shall send."""

    queue: str
    handler: str | None = None
    payload: Any = None
    http: Request | None = None
    thread_key: str | None = None
    priority: int | None = None
    delay: float | str | None = None
    at: str | None = None
    expires: str | None = None
    session: str | None = None
    labels: dict[str, str] | None = None
    risk: str | None = None


class WantedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which key of a result."""

    key: str | None = None


async def enqueue(call: Call) -> Answer:
    """Take a job in; it is on disk when this is answered."""
    job: NewJob = call.body
    await check_takes_work(call, job.queue)
    if job.http is not None and job.payload is not None:
        raise Problem(422, "invalid-request", "payload and http were both given", "Give one of them.")
    options = set_options(job, ("handler", "thread_key", "priority", "delay", "at", "expires", "labels", "risk"))
    options |= as_caller(call)
    if job.http is None:
        receipt = await call.sf.enqueue(job.queue, job.payload, **options)
    else:
        options.pop("handler", None)
        sent = msgspec.structs.asdict(job.http)
        method, url = sent.pop("method"), sent.pop("url")
        receipt = await call.sf.enqueue_http(job.queue, method, url, **sent, **options)
    return Answer(receipt._asdict(), CREATED if receipt.outcome in {"accepted", "spooled"} else OK)


async def list_jobs(call: Call) -> Answer:
    """List jobs, the newest first."""
    wanted: WantedJobs = call.query
    if wanted.queue is not None:
        check_queue(call.grant, wanted.queue)
    paging: dict[str, Any] = {"limit": wanted.limit, "cursor": wanted.cursor, "reach": call.grant.reach()}
    page = await call.sf.jobs(**wanted.chosen(), **paging)
    items = [job_for(job, call.grant) for job in page]
    whole = call.grant.queues is None and not own_only(call.grant)  # else it would count jobs that are not shown
    return Answer({"items": items, "next_cursor": page.next_cursor, "scanned": page.scanned if whole else None})


async def one(call: Call) -> Answer:
    """Give one job, and what to do about it."""
    job = await found_job(call)
    return Answer({**job_for(job, call.grant), "hint": reply(job)["hint"]})


async def explain(call: Call) -> Answer:
    """Say why a job is where it is."""
    job = await found_job(call)
    return Answer({"id": job.id, "explanation": text_for(await call.sf.explain(job.id), call.grant, job)})


async def result(call: Call) -> Answer:
    """Give a job's whole result, or one key of it."""
    job = await found_job(call)
    result = await call.sf.result(job.id, call.query.key)
    return Answer({"id": job.id, "result": result_for(result, call.query.key, call.grant, job)})


async def retry(call: Call) -> Answer:
    """Run a job again as soon as may be."""
    job = await found_job(call)
    return Answer(await call.sf.retry(job.id, by=call.grant.person, session=agent_session(call.grant)))


async def cancel(call: Call) -> Answer:
    """End a job that is no longer wanted."""
    job = await found_job(call)
    return Answer(job_for(await call.sf.cancel(job.id, by=call.grant.person), call.grant))


TAKES_IN = Route(
    "POST", "/jobs", Right.ENQUEUE, enqueue, "Enqueue a job", body=NewJob, answers=(201, 200), headers=SAID
)

ROUTES = (
    TAKES_IN,
    Route("GET", "/jobs", Right.READ, list_jobs, "List jobs, the newest first", query=WantedJobs, also=Right.READ_OWN),
    Route("GET", "/jobs/{id}", Right.READ, one, "Get one job", also=Right.READ_OWN),
    Route("GET", "/jobs/{id}/explain", Right.READ, explain, "Explain why a job is where it is", also=Right.READ_OWN),
    Route("GET", "/jobs/{id}/result", Right.READ, result, "Get a job's result", query=WantedKey, also=Right.READ_OWN),
    Route("POST", "/jobs/{id}/retry", Right.OPERATE, retry, "Run a job again as soon as possible"),
    Route("POST", "/jobs/{id}/cancel", Right.OPERATE, cancel, "Cancel a job"),
)
