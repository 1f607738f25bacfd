"""Routes about many letters at once: a plan, and the redrive that carries it out."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from standfast.errors import UnknownRequest
from standfast.server import visible as reached
from standfast.server.auth import agent_session
from standfast.server.fields import ReasonBody
from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import value_for, values_for
from standfast.wings.access.words import Right
from standfast.wings.records.letter_filter import as_filter
from standfast.wings.records.letter_query import WantedLetters
from standfast.wings.records.letter_reach import check_one_queue
from standfast.wings.redrives.shapes import RedriveList, RedrivePlan, RedriveProgress, RedriveWithFailures


class LetterSelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The letters to plan for."""

    filter: WantedLetters = WantedLetters()


class WantedRedrives(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many redrives to list."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class NewRedrive(ReasonBody, frozen=True, forbid_unknown_fields=True):
    """A plan to carry out."""

    token: str
    rate: float | str | None = None
    canary: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    halt_on: Annotated[float, Meta(ge=0, le=1)] | None = None


async def plan(call: Call) -> Answer:
    """Preview what a redrive would do; nothing is changed."""
    given: LetterSelection = call.body
    check_one_queue(call.grant, given.filter)
    session = agent_session(call.grant)
    return Answer(await call.sf.dead_letters.plan(as_filter(given.filter.chosen()), session=session))


async def redrive(call: Call) -> Answer:
    """Carry out a plan."""
    given: NewRedrive = call.body
    course = {"rate": given.rate, "canary": given.canary, "halt_on": given.halt_on}
    options: dict[str, Any] = {"by": call.grant.person, "reason": given.reason, **course}
    options["session"] = agent_session(call.grant)
    started = await call.sf.dead_letters.redrive(await _reached(call, given.token), **options)
    return Answer({"id": started.id, **await started.progress()}, 202)


async def redrives(call: Call) -> Answer:
    """List redrives, the newest first; one over all queues is only for tokens that reach them all."""
    found = await call.sf.dead_letters.redrives.list(limit=call.query.limit)
    shown = [each for each in found if await reached.reaches_redrive(call.sf, call.grant, each["id"])]
    return Answer({"items": values_for(shown, call.grant)})


async def progress(call: Call) -> Answer:
    """Return the progress of a redrive."""
    redrives, redrive = call.sf.dead_letters.redrives, await _reached(call, call.path["id"])
    found = {**await redrives.progress(redrive), "failures": await redrives.failures(redrive)}
    return Answer(value_for(found, call.grant))


def _steering(turn: str) -> Any:
    async def steer(call: Call) -> Answer:
        redrives = call.sf.dead_letters.redrives
        redrive = await _reached(call, call.path["id"])
        await redrives.steer(redrive, turn, by=call.grant.person, agent=call.grant.is_agent)
        return Answer(await redrives.progress(call.path["id"]))

    return steer


async def _reached(call: Call, token: str) -> str:
    """Refuse a plan or redrive that the caller may not see."""
    if not await reached.reaches_redrive(call.sf, call.grant, token):
        raise UnknownRequest.for_id("plan", token)
    return token


_REDRIVE = "/redrives/{id}"

ROUTES = (
    Route(
        "POST",
        "/dead-letters/plan",
        Right.OPERATE,
        plan,
        "Preview what a redrive would do",
        body=LetterSelection,
        answer=RedrivePlan,
    ),
    Route(
        "GET",
        "/redrives",
        Right.READ,
        redrives,
        "List redrives, the newest first",
        query=WantedRedrives,
        answer=RedriveList,
    ),
    Route(
        "POST",
        "/redrives",
        Right.OPERATE,
        redrive,
        "Start a redrive from a plan",
        body=NewRedrive,
        answer=RedriveProgress,
        answers=(202,),
    ),
    Route("GET", _REDRIVE, Right.READ, progress, "Get the progress of a redrive", answer=RedriveWithFailures),
    Route("POST", f"{_REDRIVE}/pause", Right.OPERATE, _steering("paused"), "Pause a redrive", answer=RedriveProgress),
    Route(
        "POST",
        f"{_REDRIVE}/resume",
        Right.OPERATE,
        _steering("resumed"),
        "Resume a redrive after a pause or a halt",
        answer=RedriveProgress,
    ),
    Route(
        "POST",
        f"{_REDRIVE}/cancel",
        Right.OPERATE,
        _steering("cancelled"),
        "Cancel the rest of a redrive",
        answer=RedriveProgress,
    ),
)
