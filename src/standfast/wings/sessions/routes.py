"""Routes to a session's inbox."""

from __future__ import annotations

import msgspec

from standfast.server.auth import own_session
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import values_for
from standfast.wings.access.words import Right
from standfast.wings.sessions.shapes import MessageList


class WantedMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages to list."""

    unread: bool = True


async def inbox(call: Call) -> Answer:
    """Return a session's messages, only to its own token: reading marks successes as read."""
    wanted: WantedMessages = call.query
    found = await call.sf.inbox.list(own_session(call.grant, call.path["id"]), unread=wanted.unread)
    return Answer({"items": values_for(found, call.grant)})


async def ack(call: Call) -> Answer:
    """Acknowledge a message of the token's own session."""
    await call.sf.inbox.ack(call.path["message"], session=own_session(call.grant, call.path["id"]))
    return Answer(None, 204)


ROUTES = (
    Route(
        "GET",
        "/sessions/{id}/inbox",
        Right.READ,
        inbox,
        "Give a session's messages",
        query=WantedMessages,
        answer=MessageList,
        also=Right.READ_OWN,
    ),
    Route("POST", "/sessions/{id}/inbox/{message}/ack", Right.ENQUEUE, ack, "Acknowledge a message", answers=(204,)),
)
