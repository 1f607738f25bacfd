"""What a request is about, and who makes it: its job, its handler, its key and its session."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from standfast.server import visible as reached
from standfast.server.auth import check_queue, own_session
from standfast.server.problems import Problem
from standfast.server.request_headers import header
from standfast.server.route import Call
from standfast.spine.accept import LONGEST_NAME
from standfast.views import JobView

SAID = ("Idempotency-Key", "traceparent")
"""The headers that belong to a new job."""


async def found_job(call: Call, named: str | None = None) -> JobView:
    """Find the job that a path names, if the caller may see it; for everyone else it does not exist."""
    return await reached.job(call.sf, call.grant, named or call.path["id"])


async def handler_named(call: Call, handler: str, *, published_only: bool = True) -> str:
    """Resolve a handler's name, and refuse a queue that the token does not reach."""
    target = await call.sf.resolve_handler(handler, queues=call.grant.queues, published_only=published_only)
    await check_takes_work(call, target.queue)
    return f"{target.queue}/{target.handler}"


async def check_takes_work(call: Call, queue: str) -> None:
    """Refuse work for a queue that the token does not reach."""
    check_queue(call.grant, queue)
    if not await reached.takes_work(call.sf, call.grant, queue):
        detail = "no process has published this queue, and a token without --queues reaches published queues only"
        hint = "Correct the name, start the process that declares it, or ask for a token made with --queues."
        raise Problem(403, "forbidden", f"{detail}; nothing was written", hint)


def as_caller(call: Call) -> dict[str, Any]:
    """Return the idempotency key, the person and the session of a request, as options for a call."""
    session = own_session(call.grant, call.body.session)
    return {"idempotency_key": key_of(call), "requester": call.grant.person, "session": session}


def key_of(call: Call) -> str | None:
    """Return a request's idempotency key."""
    given = header(call.request, b"idempotency-key")
    if given is None:
        return None
    key = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given  # the draft quotes it
    if not key or len(key) > LONGEST_NAME or not key.isprintable():
        hint = f"Send 1 to {LONGEST_NAME} printable characters."
        raise Problem(400, "bad-idempotency-key", "the Idempotency-Key cannot be used", hint)
    return key


def set_options(body: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options that are set in a body."""
    return {name: value for name in names if (value := getattr(body, name)) is not None and value is not UNSET}
