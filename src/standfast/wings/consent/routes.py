"""Routes about consent: the jobs that wait for a person's answer, the answers in force, and answering.

A person must answer: a producer's token, one made for sessions, or one that works in the session itself may not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from standfast.server.auth import check_queue
from standfast.server.fields import OptionalReasonBody, Reason
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import found_job, set_options
from standfast.server.token_view import values_for
from standfast.wings.access.words import Right
from standfast.wings.consent.shapes import ConsentAnswered, ConsentGiven, ConsentList, ConsentsRevoked
from standfast.wings.consent.words import EVERY

CREATED = 201
Hash = Annotated[str, Meta(min_length=64, max_length=64)]


class WantedConsents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which session; without one, of all."""

    session: str | None = None


class NewConsent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a session may do, or not: without `session`, jobs that have none; `handler` `*` is every handler."""

    handler: str
    session: str | None = None
    mode: Literal["once", "timed", "always", "deny"] = "once"
    seconds: float | str | None = None
    uses: Annotated[int, Meta(ge=1)] | None = None
    reason: Reason | None = None


class ConsentToJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A yes to one job that waits; `timed` and `always` are for its session and handler from now on."""

    mode: Literal["once", "timed", "always"] = "once"
    seconds: float | str | None = None
    reason: str | None = None
    payload_sha256: Hash | None = None


class DenialOfJob(OptionalReasonBody, frozen=True, forbid_unknown_fields=True):
    """A no to one job that waits."""

    payload_sha256: Hash | None = None


class TakenBack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to revoke: answers to a session about one handler, or all; without `session`, to jobs without one."""

    session: str | None = None
    handler: str | None = None
    reason: str | None = None


async def consents(call: Call) -> Answer:
    """List the answers in force and the jobs that wait for one."""
    session = call.query.session
    grants, asks = await call.sf.consent.list(session), await call.sf.consent.asks(session)
    reached = [each for each in grants if call.grant.queues is None or call.grant.reaches(_queue_of(each["handler"]))]
    waiting = [each for each in asks if call.grant.reaches(each["queue"])]
    return Answer({"items": values_for(reached, call.grant), "asks": values_for(waiting, call.grant)})


async def give(call: Call) -> Answer:
    """Grant or deny a session a handler."""
    given: NewConsent = call.body
    await _check_target(call, given.session, given.handler)
    options = set_options(given, ("mode", "seconds", "uses", "reason"))
    done = await call.sf.consent.grant(given.session, given.handler, by=call.grant.person, **options)
    return Answer(done, CREATED)


async def grant(call: Call) -> Answer:
    """Let one job that waits for consent go on."""
    return await _answer(call, **set_options(call.body, ("mode", "seconds")))


async def deny(call: Call) -> Answer:
    """End one job that waits for consent."""
    return await _answer(call, mode="deny")


async def _answer(call: Call, **options: Any) -> Answer:
    job = await found_job(call)
    _check_person(call, job.session)
    shown = {"reason": call.body.reason or None, "payload_sha256": call.body.payload_sha256}
    return Answer(await call.sf.consent.answer(job.id, by=call.grant.person, **shown, **options))


async def revoke(call: Call) -> Answer:
    """Revoke answers to a session."""
    given: TakenBack = call.body
    await _check_target(call, given.session, given.handler or EVERY)
    number = await call.sf.consent.revoke(
        given.session, given.handler, by=call.grant.person, reason=given.reason or None
    )
    return Answer({"revoked": number})


async def _check_target(call: Call, session: str | None, handler: str) -> None:
    """Refuse an answer that the caller may not give: because of who they are, or of the queues they reach."""
    _check_person(call, session)
    if call.grant.queues is None:
        return
    if handler == EVERY:
        hint = "Name one handler of your queues."
        raise Problem(403, "forbidden", "the token reaches some queues, and this is about all of them", hint)
    check_queue(call.grant, (await call.sf.resolve_handler(handler, queues=call.grant.queues)).queue)


def _check_person(call: Call, session: str | None) -> None:
    own = not call.grant.host and call.grant.works_in(session)
    if call.grant.is_agent or own:
        detail = "the token works in that session" if own else "the token was made for an agent"
        hint = "Have a person answer, with a token made without --sessions."
        raise Problem(403, "forbidden", f"{detail}, and agents consent to nothing; nothing was changed", hint)


def _queue_of(handler: str) -> str:
    return handler.rpartition("/")[0]


_JOB = "/consents/{id}"

ROUTES = (
    Route(
        "GET",
        "/consents",
        Right.READ,
        consents,
        "List consents and the jobs that wait",
        query=WantedConsents,
        answer=ConsentList,
    ),
    Route(
        "POST",
        "/consents",
        Right.APPROVE,
        give,
        "Grant or deny a session",
        body=NewConsent,
        answer=ConsentGiven,
        answers=(201,),
    ),
    Route(
        "POST",
        "/consents/revoke",
        Right.APPROVE,
        revoke,
        "Take back consents of a session",
        body=TakenBack,
        answer=ConsentsRevoked,
    ),
    Route(
        "POST",
        f"{_JOB}/grant",
        Right.APPROVE,
        grant,
        "Let a job that waits for consent go on",
        body=ConsentToJob,
        answer=ConsentAnswered,
    ),
    Route(
        "POST",
        f"{_JOB}/deny",
        Right.APPROVE,
        deny,
        "End a job that waits for consent",
        body=DenialOfJob,
        answer=ConsentAnswered,
    ),
)
