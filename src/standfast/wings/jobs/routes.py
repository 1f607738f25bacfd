"""Routes about jobs: taking them in, looking at them, retrying and cancelling them, and calling handlers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from standfast.application.calling import Begun
from standfast.lifecycle import VIEWS, State
from standfast.server import visible as reached
from standfast.server.auth import agent_session, check_queue, own_session
from standfast.server.parting import parting_of
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.seen import own_only, result_shown, seen, worded
from standfast.server.shown import header
from standfast.spine.accept import LONGEST_NAME
from standfast.views import JobView
from standfast.wings.calls.replies import reply
from standfast.wings.jobs.search import LONGEST_SOUGHT
from standfast.wings.tokens.words import Right

LONGEST_RUN = 25.0
"""Seconds that a request waits for a handler's end; proxies and clients give up at thirty or sixty."""
CREATED, OK = 201, 200
Limit = Annotated[int, Meta(ge=1, le=500)]
Cursor = Annotated[int, Meta(ge=1, lt=1 << 62)]
Sought = Annotated[str, Meta(min_length=1, max_length=LONGEST_SOUGHT)]
View = Annotated[str, Meta(extra_json_schema={"enum": [str(word) for word in VIEWS]})]


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


class NewCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A handler to be called."""

    handler: str
    params: Any = None
    session: str | None = None
    timeout: float | str | None = None


class NewSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A handler to be called later, once."""

    handler: str
    params: Any = None
    session: str | None = None
    priority: int | None = None
    lease: float | str | UnsetType = UNSET


class FailedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that somebody made and that failed."""

    handler: str
    error: Any
    params: Any = None
    session: str | None = None


class WantedJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs to list."""

    queue: str | None = None
    state: State | None = None
    view: View | None = None
    reason_code: Sought | None = None
    error_kind: Sought | None = None
    thread_key: Sought | None = None
    session: Sought | None = None
    label: Sought | None = None
    q: Sought | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class WantedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which key of a result."""

    key: str | None = None


async def enqueue(call: Call) -> Answer:
    """Take a job in; it is on disk when this is answered."""
    job: NewJob = call.body
    await check_takes_work(call, job.queue)
    if job.http is not None and job.payload is not None:
        raise Problem(422, "invalid-request", "payload and http were both given", "Give one of them.")
    options = _asked(job, ("handler", "thread_key", "priority", "delay", "at", "expires", "labels", "risk"))
    options |= _as(call)
    if job.http is None:
        receipt = await call.sf.enqueue(job.queue, job.payload, **options)
    else:
        options.pop("handler", None)
        sent = msgspec.structs.asdict(job.http)
        method, url = sent.pop("method"), sent.pop("url")
        receipt = await call.sf.enqueue_http(job.queue, method, url, **sent, **options)
    return Answer(receipt._asdict(), CREATED if receipt.outcome in {"accepted", "spooled"} else OK)


async def run(call: Call) -> Answer:
    """Call a handler now. What takes longer than a request should goes on, and the reply says where it stands."""
    wanted: NewCall = call.body
    options = _asked(wanted, ("timeout",))
    begun = await call.sf.begin(await _meant(call, wanted.handler), wanted.params, **_as(call), **options)
    said = await parting_of(call.request).unless_over(begun.reply_within(LONGEST_RUN))
    if await call.request.is_disconnected():
        await _keep_reply(call, begun)
    return Answer(said if said is not None else reply(await found(call, begun.id)))


async def _keep_reply(call: Call, begun: Begun) -> None:
    """Have the end of a call be in its session's inbox: whoever called it has hung up."""
    job = await call.sf.status(begun.id)
    if job is None or not call.grant.works_in(job.session):  # the key belongs to another session's call
        return
    await call.sf.inbox.keep_reply(job.id)  # whoever takes it up from here on tells of its end
    if not job.settled and await parting_of(call.request).unless_over(begun.reply()) is not None:
        await call.sf.inbox.keep_reply(job.id)  # the attempt that was under way could not know


async def submit(call: Call) -> Answer:
    """Have a handler called later."""
    wanted: NewSubmission = call.body
    options = _asked(wanted, ("priority", "lease"))
    return Answer(await call.sf.submit(await _meant(call, wanted.handler), wanted.params, **_as(call), **options))


async def hand_over(call: Call) -> Answer:
    """Take over a call that failed elsewhere."""
    wanted: FailedCall = call.body
    handler = await _meant(call, wanted.handler)
    return Answer(await call.sf.hand_over(handler, wanted.params, wanted.error, **_as(call)))


async def listed(call: Call) -> Answer:
    """List jobs, the newest first."""
    wanted: WantedJobs = call.query
    if wanted.queue is not None:
        check_queue(call.grant, wanted.queue)
    asked = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
    page = await call.sf.jobs(**asked, reach=call.grant.reach())
    items = [seen(job, call.grant) for job in page]
    whole = call.grant.queues is None and not own_only(call.grant)  # else it would count jobs that are not shown
    return Answer({"items": items, "next_cursor": page.next_cursor, "scanned": page.scanned if whole else None})


async def one(call: Call) -> Answer:
    """Give one job, and what to do about it."""
    job = await found(call)
    return Answer({**seen(job, call.grant), "hint": reply(job)["hint"]})


async def explain(call: Call) -> Answer:
    """Say why a job is where it is."""
    job = await found(call)
    return Answer({"id": job.id, "explanation": worded(await call.sf.explain(job.id), call.grant, job)})


async def result(call: Call) -> Answer:
    """Give a job's whole result, or one key of it."""
    job = await found(call)
    told = await call.sf.result(job.id, call.query.key)
    return Answer({"id": job.id, "result": result_shown(told, call.query.key, call.grant, job)})


async def retry(call: Call) -> Answer:
    """Run a job again as soon as may be."""
    job = await found(call)
    return Answer(await call.sf.retry(job.id, by=call.grant.person, session=agent_session(call.grant)))


async def cancel(call: Call) -> Answer:
    """End a job that is not wanted any more."""
    job = await found(call)
    return Answer(seen(await call.sf.cancel(job.id, by=call.grant.person), call.grant))


async def found(call: Call, named: str | None = None) -> JobView:
    """Find the job a path names, if whoever asks may know of it: to everybody else there is none."""
    return await reached.job(call.sf, call.grant, named or call.path["id"])


async def _meant(call: Call, handler: str) -> str:
    """Find what a name means, and refuse a queue that the token does not reach."""
    target = await call.sf.meant(handler, queues=call.grant.queues)
    await check_takes_work(call, target.queue)
    return f"{target.queue}/{target.handler}"


async def check_takes_work(call: Call, queue: str) -> None:
    """Refuse work for a queue that the token does not reach."""
    check_queue(call.grant, queue)
    if not await reached.takes_work(call.sf, call.grant, queue):
        detail = "no process has published this queue, and a token without --queues reaches published queues only"
        hint = "Correct the name, start the process that declares it, or ask for a token made with --queues."
        raise Problem(403, "forbidden", f"{detail}; nothing was written", hint)


def _as(call: Call) -> dict[str, Any]:
    """Say under which key, as whom, and in which session."""
    session = own_session(call.grant, call.body.session)
    return {"idempotency_key": key_of(call), "requester": call.grant.person, "session": session}


def key_of(call: Call) -> str | None:
    """Give the key a request is known by."""
    given = header(call.request, b"idempotency-key")
    if given is None:
        return None
    key = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given  # the draft quotes it
    if not key or len(key) > LONGEST_NAME or not key.isprintable():
        hint = f"Send 1 to {LONGEST_NAME} printable characters."
        raise Problem(400, "bad-idempotency-key", "the Idempotency-Key cannot be used", hint)
    return key


def _asked(body: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(body, name)) is not None and value is not UNSET}


SAID = ("Idempotency-Key", "traceparent")
"""The headers that belong to a new job."""
TAKES_IN = Route(
    "POST", "/jobs", Right.ENQUEUE, enqueue, "Take a job in", body=NewJob, answers=(201, 200), headers=SAID
)
ROUTES = (
    TAKES_IN,
    Route("POST", "/run", Right.ENQUEUE, run, "Call a handler now", body=NewCall, headers=SAID),
    Route(
        "POST",
        "/submit",
        Right.ENQUEUE,
        submit,
        "Have a handler called later, once",
        body=NewSubmission,
        headers=SAID,
    ),
    Route(
        "POST", "/hand-over", Right.ENQUEUE, hand_over, "Hand over a call that failed", body=FailedCall, headers=SAID
    ),
    Route("GET", "/jobs", Right.READ, listed, "List jobs, the newest first", query=WantedJobs, also=Right.READ_OWN),
    Route("GET", "/jobs/{id}", Right.READ, one, "Look at a job", also=Right.READ_OWN),
    Route("GET", "/jobs/{id}/explain", Right.READ, explain, "Say why a job is where it is", also=Right.READ_OWN),
    Route("GET", "/jobs/{id}/result", Right.READ, result, "Give a result", query=WantedKey, also=Right.READ_OWN),
    Route("POST", "/jobs/{id}/retry", Right.OPERATE, retry, "Run a job again as soon as may be"),
    Route("POST", "/jobs/{id}/cancel", Right.OPERATE, cancel, "End a job that is not wanted any more"),
)
