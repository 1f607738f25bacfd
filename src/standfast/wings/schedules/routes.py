"""Routes about schedules."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.errors import UnknownSchedule
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import check_takes_work
from standfast.server.token_view import values_for
from standfast.wings.access.words import Right
from standfast.wings.schedules.shapes import ScheduleList, ShownSchedule


class NewSchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to store: give one of cron, every and at."""

    name: str
    queue: str
    payload: Any = None
    cron: str | None = None
    every: float | str | None = None
    at: str | None = None
    tz: str = "UTC"
    missed: str = "latest"
    jitter: float | str = 0
    overlap: bool = False


async def schedules(call: Call) -> Answer:
    """List schedules with their next runs."""
    found = await call.sf.schedules.list()
    return Answer({"items": values_for((each for each in found if call.grant.reaches(each["queue"])), call.grant)})


async def add_schedule(call: Call) -> Answer:
    """Store a schedule; repeating the same request changes nothing."""
    given: dict[str, Any] = msgspec.structs.asdict(call.body)
    await check_takes_work(call, given["queue"])
    if given["name"] in await _out_of_reach(call):
        raise Problem(403, "forbidden", "a schedule of another queue has this name", "Choose another name.")
    name, queue = given.pop("name"), given.pop("queue")
    options: dict[str, Any] = {"by": call.grant.person, **given}
    if call.grant.is_agent:  # jobs that an agent schedules belong to its session, too
        options["session"] = call.grant.session
    return Answer(await call.sf.schedules.add(name, queue, options.pop("payload"), **options))


def _turn(verb: str) -> Any:
    async def turn(call: Call) -> Answer:
        if call.path["name"] in await _out_of_reach(call):
            raise UnknownSchedule.for_id(call.path["name"])
        await getattr(call.sf.schedules, verb)(call.path["name"])
        return Answer(None, 204)

    return turn


async def _out_of_reach(call: Call) -> set[str]:
    """Return the names of the schedules that the caller may not see."""
    if call.grant.queues is None:
        return set()
    return {each["name"] for each in await call.sf.schedules.list() if not call.grant.reaches(each["queue"])}


ROUTES = (
    Route("GET", "/schedules", Right.READ, schedules, "List schedules with their next runs", answer=ScheduleList),
    Route(
        "POST",
        "/schedules",
        Right.OPERATE,
        add_schedule,
        "Add or change a schedule",
        body=NewSchedule,
        answer=ShownSchedule,
    ),
    Route("POST", "/schedules/{name}/pause", Right.OPERATE, _turn("pause"), "Pause a schedule", answers=(204,)),
    Route("POST", "/schedules/{name}/resume", Right.OPERATE, _turn("resume"), "Tick again", answers=(204,)),
    Route("DELETE", "/schedules/{name}", Right.OPERATE, _turn("remove"), "Remove a schedule", answers=(204,)),
)
