"""Routes about the whole: queues, counts, health; and about who may do what."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from standfast.server import visible as reached
from standfast.server.auth import check_queue, check_whole
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.seen import all_shown, reads_secrets, shown, stats_for
from standfast.wings.jobs.routes import found as found_job
from standfast.wings.letters.routes import Reason
from standfast.wings.tokens.words import Right

LONGEST_TRIAL = 20.0
"""Seconds that a policy is tried on the letters; a proxy gives up at thirty."""


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made."""

    name: str
    person: str
    role: str
    groups: list[str] = []
    queues: list[str] | None = None
    sessions: list[str] | None = None
    expires: float | str | None = None


class WantedApprovals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which approvals."""

    state: str | None = "pending"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Denial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why not."""

    reason: Reason


class WantedEntries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which decisions."""

    after: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    job: str | None = None
    kind: str | None = None


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to try on the letters there are."""

    text: str


async def queues(call: Call) -> Answer:
    """List queues with their rules and what they hold."""
    described = await call.sf.queues.describe()
    reached = ({"name": name, **each} for name, each in described.items() if call.grant.reaches(name))
    return Answer({"items": all_shown(map(msgspec.to_builtins, reached), call.grant)})


def _switch(verb: str) -> Any:
    async def switch(call: Call) -> Answer:
        name = call.path["name"]
        check_queue(call.grant, name)
        await getattr(call.sf.queues, verb)(name)
        return Answer({"name": name, "paused": verb == "pause"})

    return switch


async def stats(call: Call) -> Answer:
    """Count what is there."""
    return Answer(stats_for(await call.sf.stats(), call.grant))


async def health(call: Call) -> Answer:
    """Judge the queue; to a token that reaches some queues, only these."""
    return Answer(await reached.health(call.sf, call.grant))


async def approvals(call: Call) -> Answer:
    """List what waits for a person's answer."""
    wanted: WantedApprovals = call.query
    state = None if wanted.state == "all" else wanted.state
    found = await call.sf.approvals.list(state, queues=call.grant.queues, limit=wanted.limit)
    return Answer({"items": all_shown(found, call.grant), "more": found.more})


async def _asked(call: Call) -> str:
    """Find the approval a path names, if whoever asks may know of it."""
    return str((await reached.approval(call.sf, call.grant, call.path["id"]))["id"])


async def approve(call: Call) -> Answer:
    """Say yes; the replay is performed. A token made for sessions is an agent's, and a yes is a person's to say."""
    grant = call.grant
    if grant.is_agent:
        hint = "Have a person approve it, with a token made without --sessions."
        raise Problem(403, "forbidden", "the token was made for an agent's sessions, and agents approve nothing", hint)
    by: dict[str, Any] = {"by": grant.person, "groups": grant.groups, "token": None if grant.host else grant.id}
    return Answer(await call.sf.approvals.approve(await _asked(call), **by))


async def deny(call: Call) -> Answer:
    """Say no."""
    return Answer(await call.sf.approvals.deny(await _asked(call), by=call.grant.person, reason=call.body.reason))


async def audit(call: Call) -> Answer:
    """Give decisions, in their order."""
    wanted: WantedEntries = call.query
    if wanted.job is None:
        check_whole(call.grant, "Name a job of one of them.")
    elif call.grant.queues is not None:
        await found_job(call, wanted.job)
    found = await call.sf.audit.entries(**msgspec.structs.asdict(wanted))
    return Answer({"items": all_shown(found, call.grant), "next_after": found.next_after})


async def verify(call: Call) -> Answer:
    """Look whether the record, which is of all queues, is whole."""
    check_whole(call.grant)
    return Answer(shown(await call.sf.audit.verify(), call.grant))


async def policy(call: Call) -> Answer:
    """Give the policy in force: it names queues, so that a token for some of them does not read it."""
    check_whole(call.grant)
    return Answer(await call.sf.policy.show())


async def check_policy(call: Call) -> Answer:
    """Foresee what another policy would say about the letters there are."""
    check_whole(call.grant)
    asked: dict[str, Any] = {"without_secrets": not reads_secrets(call.grant), "longest": LONGEST_TRIAL}
    async with call.request.app.state.trying:
        return Answer(await call.sf.policy.check(call.body.text, "request", **asked))


async def tokens(call: Call) -> Answer:
    """List tokens, without their secrets."""
    check_whole(call.grant)
    return Answer({"items": await call.sf.tokens.list()})


async def create_token(call: Call) -> Answer:
    """Make a token; its text is in this answer and nowhere else. With one for a person, an agent could approve."""
    check_whole(call.grant)
    if call.grant.is_agent:
        hint = "Have a person make it, with a token made without --sessions."
        raise Problem(403, "forbidden", "the token was made for an agent's sessions, and agents make no tokens", hint)
    given: dict[str, Any] = msgspec.structs.asdict(call.body)
    made_by: dict[str, Any] = {"by": call.grant.person, "made_with": None if call.grant.host else call.grant.id}
    return Answer(await call.sf.tokens.create(given.pop("name"), **made_by, **given), 201)


async def revoke_token(call: Call) -> Answer:
    """Have a token count no more."""
    check_whole(call.grant)
    await call.sf.tokens.revoke(call.path["name"], by=call.grant.person)
    return Answer(None, 204)


ROUTES = (
    Route("GET", "/queues", Right.READ, queues, "List queues with what they hold"),
    Route("POST", "/queues/{name}/pause", Right.OPERATE, _switch("pause"), "Start nothing more of a queue"),
    Route("POST", "/queues/{name}/resume", Right.OPERATE, _switch("resume"), "Let a queue go on"),
    Route("GET", "/stats", Right.READ, stats, "Count what is there"),
    Route("GET", "/health", Right.READ, health, "Judge the queue"),
    Route("GET", "/approvals", Right.READ, approvals, "List what waits for an answer", query=WantedApprovals),
    Route("POST", "/approvals/{id}/approve", Right.APPROVE, approve, "Say yes; the replay is performed"),
    Route("POST", "/approvals/{id}/deny", Right.APPROVE, deny, "Say no", body=Denial),
    Route("GET", "/audit", Right.READ, audit, "Give decisions, in their order", query=WantedEntries),
    Route("GET", "/audit/verify", Right.READ, verify, "Look whether the record is whole"),
    Route("GET", "/policy", Right.READ, policy, "Give the policy in force"),
    Route("POST", "/policy/check", Right.READ, check_policy, "Try a policy on the letters", body=Candidate),
    Route("GET", "/tokens", Right.ADMINISTER, tokens, "List tokens"),
    Route("POST", "/tokens", Right.ADMINISTER, create_token, "Make a token", body=NewToken, answers=(201,)),
    Route("DELETE", "/tokens/{name}", Right.ADMINISTER, revoke_token, "Revoke a token", answers=(204,)),
)
