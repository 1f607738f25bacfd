"""Routes about queues."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.server.auth import check_queue
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import values_for
from standfast.wings.access.words import Right


async def queues(call: Call) -> Answer:
    """List queues with their rules and what they hold."""
    described = await call.sf.queues.describe()
    reached = ({"name": name, **each} for name, each in described.items() if call.grant.reaches(name))
    return Answer({"items": values_for(map(msgspec.to_builtins, reached), call.grant)})


def _switch(verb: str) -> Any:
    async def switch(call: Call) -> Answer:
        name = call.path["name"]
        check_queue(call.grant, name)
        await getattr(call.sf.queues, verb)(name)
        return Answer({"name": name, "paused": verb == "pause"})

    return switch


ROUTES = (
    Route("GET", "/queues", Right.READ, queues, "List queues with their depth"),
    Route("POST", "/queues/{name}/pause", Right.OPERATE, _switch("pause"), "Pause a queue"),
    Route("POST", "/queues/{name}/resume", Right.OPERATE, _switch("resume"), "Resume a queue"),
)
