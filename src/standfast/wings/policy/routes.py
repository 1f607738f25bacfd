"""Routes about the policy."""

from __future__ import annotations

import msgspec

from standfast.server.auth import check_whole
from standfast.server.route import Answer, Call, Route
from standfast.wings.tokens.words import Right


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to try on the letters there are."""

    text: str


async def policy(call: Call) -> Answer:
    """Give the policy in force: it names queues, so that a token for some of them does not read it."""
    check_whole(call.grant)
    return Answer(await call.sf.policy.show())


async def check_policy(call: Call) -> Answer:
    """Foresee what another policy would say about the letters there are."""
    check_whole(call.grant)
    return Answer(await call.sf.policy.check(call.body.text, "request"))


ROUTES = (
    Route("GET", "/policy", Right.READ, policy, "Give the policy in force"),
    Route("POST", "/policy/check", Right.READ, check_policy, "Try a policy on the letters", body=Candidate),
)
