"""Routes that call a handler: run, submit, hand over."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from standfast.application.calling import StartedCall
from standfast.lifecycle import State
from standfast.server.route import Answer, Call, Route
from standfast.server.shutdown import shutdown_of
from standfast.server.targets import SAID, as_caller, found_job, handler_named, set_options
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import reply
from standfast.wings.calls.shapes import Reply

LONGEST_RUN = 25.0
"""Seconds that a request waits for a handler's end; proxies and clients give up at thirty or sixty."""


class NewCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A handler to call."""

    handler: str
    params: Any = None
    session: str | None = None
    timeout: float | str | None = None


class NewSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A handler to call later, once."""

    handler: str
    params: Any = None
    session: str | None = None
    priority: int | None = None
    lease: float | str | UnsetType = UNSET


class FailedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that failed elsewhere."""

    handler: str
    error: Any
    params: Any = None
    session: str | None = None


async def run(call: Call) -> Answer:
    """Call a handler now. A call that takes longer than a request should goes on; the reply says how it stands."""
    wanted: NewCall = call.body
    options = set_options(wanted, ("timeout",))
    begun = await call.sf.begin(await handler_named(call, wanted.handler), wanted.params, **as_caller(call), **options)
    answer = await shutdown_of(call.request).unless_begun(begun.reply_within(LONGEST_RUN))
    if answer is None:
        job = await found_job(call, begun.id)
        if job.state == State.RUNNING:  # the client may not live to ask: its session gets the end
            await _keep_reply(call, begun)
        return Answer(reply(job))
    if await call.request.is_disconnected():
        await _keep_reply(call, begun)
    return Answer(answer)


async def _keep_reply(call: Call, begun: StartedCall) -> None:
    """Keep the end of a call in its session's inbox: the caller has hung up, or gets a reply without the end."""
    job = await call.sf.status(begun.id)
    if job is None or not call.grant.works_in(job.session):  # the key belongs to another session's call
        return
    await call.sf.inbox.keep_reply(job.id)


async def submit(call: Call) -> Answer:
    """Submit a call for later."""
    wanted: NewSubmission = call.body
    options = set_options(wanted, ("priority", "lease"))
    handler = await handler_named(call, wanted.handler)
    return Answer(await call.sf.submit(handler, wanted.params, **as_caller(call), **options))


async def hand_over(call: Call) -> Answer:
    """Take over a call that failed elsewhere."""
    wanted: FailedCall = call.body
    handler = await handler_named(call, wanted.handler, published_only=False)
    return Answer(await call.sf.hand_over(handler, wanted.params, wanted.error, **as_caller(call)))


ROUTES = (
    Route("POST", "/run", Right.ENQUEUE, run, "Call a handler now", body=NewCall, answer=Reply, headers=SAID),
    Route(
        "POST",
        "/submit",
        Right.ENQUEUE,
        submit,
        "Have a handler called later, once",
        body=NewSubmission,
        answer=Reply,
        headers=SAID,
    ),
    Route(
        "POST",
        "/hand-over",
        Right.ENQUEUE,
        hand_over,
        "Hand over a call that failed",
        body=FailedCall,
        answer=Reply,
        headers=SAID,
    ),
)
