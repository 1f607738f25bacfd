"""Routes about jobs: storing, reading, retrying and cancelling them."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.doors.known_places import check_handler
from standfast.server.auth import agent_session, check_queue
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import SAID, as_caller, check_takes_work, found_job, set_options
from standfast.server.token_view import explanation_for, job_for, own_only, result_for, text_for
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import reply
from standfast.wings.calls.shapes import Reply
from standfast.wings.jobs.bodies import OPTIONS, NewJob
from standfast.wings.jobs.job_query import WantedJobs
from standfast.wings.jobs.shapes import EnqueueReceipt, Explanation, JobResult, JobWithHint
from standfast.wings.records.shapes import JobPage, ShownJob

CREATED, OK = 201, 200
"""The statuses for a job that is new, and for any other outcome."""


class WantedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which key of a result."""

    key: str | None = None


async def enqueue(call: Call) -> Answer:
    """Store a job; it is on disk when this is answered."""
    job: NewJob = call.body
    await check_takes_work(call, job.queue)
    if job.http is not None and job.payload is not None:
        raise Problem(422, "invalid-request", "payload and http were both given", "Give one of them.")
    options = set_options(job, OPTIONS)
    options |= as_caller(call)
    if job.http is None:
        await check_handler(call.sf, job.queue, options.get("handler"))
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
    """Return one job, and what to do about it."""
    job = await found_job(call)
    return Answer({**job_for(job, call.grant), "hint": reply(job)["hint"]})


async def explain(call: Call) -> Answer:
    """Say why a job is where it is."""
    job = await found_job(call)
    said = explanation_for(await call.sf.explain(job.id), call.grant, job)
    return Answer({"id": job.id, "explanation": text_for(said, call.grant, job)})


async def result(call: Call) -> Answer:
    """Return a job's whole result, or one key of it."""
    job = await found_job(call)
    result = await call.sf.result(job.id, call.query.key)
    return Answer({"id": job.id, "result": result_for(result, call.query.key, call.grant, job)})


async def retry(call: Call) -> Answer:
    """Run a job again as soon as possible."""
    job = await found_job(call)
    return Answer(await call.sf.retry(job.id, by=call.grant.person, session=agent_session(call.grant)))


async def cancel(call: Call) -> Answer:
    """End a job that is no longer wanted."""
    job = await found_job(call)
    return Answer(job_for(await call.sf.cancel(job.id, by=call.grant.person), call.grant))


TAKES_IN = Route(
    "POST",
    "/jobs",
    Right.ENQUEUE,
    enqueue,
    "Enqueue a job",
    body=NewJob,
    answer=EnqueueReceipt,
    answers=(201, 200),
    headers=SAID,
)
_JOB = "/jobs/{id}"
_OWN = Right.READ_OWN

ROUTES = (
    TAKES_IN,
    Route(
        "GET",
        "/jobs",
        Right.READ,
        list_jobs,
        "List jobs, the newest first",
        query=WantedJobs,
        answer=JobPage,
        also=_OWN,
    ),
    Route("GET", _JOB, Right.READ, one, "Get one job", answer=JobWithHint, also=_OWN),
    Route(
        "GET", f"{_JOB}/explain", Right.READ, explain, "Explain why a job is where it is", answer=Explanation, also=_OWN
    ),
    Route(
        "GET", f"{_JOB}/result", Right.READ, result, "Get a job's result", query=WantedKey, answer=JobResult, also=_OWN
    ),
    Route("POST", f"{_JOB}/retry", Right.OPERATE, retry, "Run a job again as soon as possible", answer=Reply),
    Route("POST", f"{_JOB}/cancel", Right.OPERATE, cancel, "Cancel a job", answer=ShownJob),
)
