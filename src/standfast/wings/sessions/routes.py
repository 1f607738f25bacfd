"""The route to a session's inbox."""

from __future__ import annotations

import msgspec

from standfast.server.auth import own_session
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import values_for
from standfast.wings.access.words import Right


class WantedMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages."""

    unread: bool = True


async def inbox(call: Call) -> Answer:
    """Give a session's messages, to its own token alone: reading marks what went well as read."""
    wanted: WantedMessages = call.query
    found = await call.sf.inbox.list(own_session(call.grant, call.path["id"]), unread=wanted.unread)
    return Answer({"items": values_for(found, call.grant)})


ROUTES = (
    Route(
        "GET",
        "/sessions/{id}/inbox",
        Right.READ,
        inbox,
        "Give a session's messages",
        query=WantedMessages,
        also=Right.READ_OWN,
    ),
)
