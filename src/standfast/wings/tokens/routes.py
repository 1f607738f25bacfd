"""Routes about tokens."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.server.auth import check_whole
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.wings.access.words import Right
from standfast.wings.tokens.shapes import CreatedToken, TokenList


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to make."""

    name: str
    person: str
    role: str
    groups: list[str] = []
    queues: list[str] | None = None
    sessions: list[str] | None = None
    expires: float | str | None = None


async def tokens(call: Call) -> Answer:
    """List tokens, without their secrets."""
    check_whole(call.grant)
    return Answer({"items": await call.sf.tokens.list()})


async def create_token(call: Call) -> Answer:
    """Make a token; its text is in this answer and nowhere else. With a person's token, an agent could approve."""
    check_whole(call.grant)
    if call.grant.is_agent:
        hint = "Have a person make it, with a token made without --sessions."
        raise Problem(403, "forbidden", "the token was made for an agent's sessions, and agents make no tokens", hint)
    given: dict[str, Any] = msgspec.structs.asdict(call.body)
    made_by: dict[str, Any] = {"by": call.grant.person, "made_with": None if call.grant.host else call.grant.id}
    return Answer(await call.sf.tokens.create(given.pop("name"), **made_by, **given), 201)


async def revoke_token(call: Call) -> Answer:
    """Revoke a token."""
    check_whole(call.grant)
    await call.sf.tokens.revoke(call.path["name"], by=call.grant.person)
    return Answer(None, 204)


ROUTES = (
    Route("GET", "/tokens", Right.ADMINISTER, tokens, "List tokens", answer=TokenList),
    Route(
        "POST",
        "/tokens",
        Right.ADMINISTER,
        create_token,
        "Make a token",
        body=NewToken,
        answer=CreatedToken,
        answers=(201,),
    ),
    Route("DELETE", "/tokens/{name}", Right.ADMINISTER, revoke_token, "Revoke a token", answers=(204,)),
)
