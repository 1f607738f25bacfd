"""Routes about queues."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from standfast.server.auth import check_queue, check_whole
from standfast.server.fields import OptionalReasonBody
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import values_for
from standfast.wings.access.words import Right
from standfast.wings.queues.shapes import QueueList, QueueSwitch, TriedNow


async def queues(call: Call) -> Answer:
    """List queues with their rules and what they hold."""
    described = await call.sf.queues.describe()
    reached = ({"name": name, **each} for name, each in described.items() if call.grant.reaches(name))
    return Answer({"items": values_for(map(msgspec.to_builtins, reached), call.grant)})


def _switch(verb: str) -> Any:
    async def switch(call: Call) -> Answer:
        name = call.path["name"]
        check_queue(call.grant, name)
        await getattr(call.sf.queues, verb)(name, by=call.grant.person, reason=call.body.reason)
        return Answer({"name": name, "paused": verb == "pause"})

    return switch


class TryNow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency that has not answered: a host such as `https://crm.example:443`, or its name in a breaker."""

    dependency: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


async def try_now(call: Call) -> Answer:
    """Let one job try a dependency that has not answered."""
    check_whole(call.grant, "What a breaker guards may serve queues that this token does not reach.")
    trying = await call.sf.queues.try_now(call.body.dependency)
    return Answer({"dependency": call.body.dependency, "trying": trying})


ROUTES = (
    Route("GET", "/queues", Right.READ, queues, "List queues with their depth", answer=QueueList),
    Route(
        "POST",
        "/queues/{name}/pause",
        Right.OPERATE,
        _switch("pause"),
        "Pause a queue",
        body=OptionalReasonBody,
        answer=QueueSwitch,
    ),
    Route(
        "POST",
        "/queues/{name}/resume",
        Right.OPERATE,
        _switch("resume"),
        "Resume a queue",
        body=OptionalReasonBody,
        answer=QueueSwitch,
    ),
    Route(
        "POST",
        "/breakers/try",
        Right.OPERATE,
        try_now,
        "Try a dependency that has not answered",
        body=TryNow,
        answer=TriedNow,
    ),
)
