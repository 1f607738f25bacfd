"""One verb for every job that matches: as many single decisions, each by its own rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from standfast.access import Grant, Right
from standfast.application import Standfast
from standfast.dashboard.forms import check_ours, read
from standfast.dashboard.jobs import FILTERS
from standfast.dashboard.pages import Drawn, ask_to_sign_in, drawn, refused
from standfast.errors import StandfastError
from standfast.job import JobView
from standfast.lifecycle import State
from standfast.server.auth import Gatekeeper, check_right
from standfast.server.problems import Problem, of_error

MOST = 1000
"""Jobs that one form changes; the page says whether there are more."""
PAGE = 200
WAITS = frozenset({State.QUEUED})
GOES_ON = frozenset({State.QUEUED, State.RUNNING, State.WAITING})
"""What may be cancelled here: letters have verbs of their own."""


class Counts(NamedTuple):
    """What became of those that matched."""

    done: int
    left: int
    more: bool


def endpoint(sf: Standfast, gate: Gatekeeper) -> Callable[[Request], Awaitable[Response]]:
    """Give what serves the form."""

    async def serve(request: Request) -> Response:
        grant = await gate.signed_in(request)
        if grant is None:
            return ask_to_sign_in(request)
        try:
            fields = await read(request)
            check_ours(request, fields)
            check_right(grant, Right.OPERATE)
            counts = await _all(sf, grant, fields)
        except Problem as problem:
            return refused(request, grant, problem)
        except StandfastError as error:
            return refused(request, grant, of_error(error))
        return drawn(request, Drawn("many.html", {"counts": counts, "verb": fields.get("verb")}), grant)

    return serve


async def _all(sf: Standfast, grant: Grant, fields: dict[str, str]) -> Counts:
    wanted: dict[str, Any] = {name: fields[f"filter.{name}"] for name in FILTERS if fields.get(f"filter.{name}")}
    verb, fitting = _meant(sf, grant, fields.get("verb", ""))
    if not wanted:
        raise Problem(422, "no-filter", "nothing says which jobs", "Filter first; nothing was changed.")
    done = seen = 0
    cursor = None
    while seen < MOST:
        page = await sf.jobs(limit=PAGE, cursor=cursor, reach=grant.reach(), **wanted)
        seen, cursor = seen + len(page), page.next_cursor
        for job in page:
            done += await _one(verb, job) if grant.reaches(job.queue) and job.state in fitting else 0
        if cursor is None:
            break
    return Counts(done, seen - done, cursor is not None)


def _meant(sf: Standfast, grant: Grant, verb: str) -> tuple[Callable[[str], Awaitable[Any]], frozenset[State]]:
    if verb == "cancel":
        return sf.cancel, GOES_ON
    return partial(sf.retry, by=grant.person), WAITS


async def _one(verb: Callable[[str], Awaitable[Any]], job: JobView) -> int:
    """Do it to one; one that went on meanwhile is left alone."""
    try:
        await verb(job.id)
    except StandfastError:
        return 0
    return 1
