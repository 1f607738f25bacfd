"""Routes about the policy."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.server.auth import check_whole
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import reads_secrets
from standfast.wings.access.words import Right
from standfast.wings.policy.shapes import PolicyInForce, PolicyTrial

LONGEST_TRIAL = 20.0
"""The most seconds that a policy is tried on the letters; proxies give up at thirty."""


class CandidatePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to try on the stored letters."""

    text: str


async def policy(call: Call) -> Answer:
    """Return the policy in force: it names queues, so a token for only some queues may not read it."""
    check_whole(call.grant)
    return Answer(await call.sf.policy.show())


async def check_policy(call: Call) -> Answer:
    """Preview what another policy would decide about the stored letters."""
    check_whole(call.grant)
    options: dict[str, Any] = {"without_secrets": not reads_secrets(call.grant), "longest": LONGEST_TRIAL}
    async with call.request.app.state.trying:
        return Answer(await call.sf.policy.check(call.body.text, "request", **options))


ROUTES = (
    Route("GET", "/policy", Right.READ, policy, "Get the policy in force", answer=PolicyInForce),
    Route(
        "POST",
        "/policy/check",
        Right.READ,
        check_policy,
        "Try a policy on the stored letters",
        body=CandidatePolicy,
        answer=PolicyTrial,
    ),
)
