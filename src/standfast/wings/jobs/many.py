"""One verb for every job that matches: a separate decision for each, by its own rules."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.dashboard.forms import read_filters, read_ours
from standfast.dashboard.page import RenderedPage, page_endpoint, read_cursor
from standfast.dashboard.shared_cache import SharedCache
from standfast.errors import StandfastError, StoreUnavailable
from standfast.lifecycle import State
from standfast.server.auth import Gatekeeper, agent_session, check_right
from standfast.server.problems import Problem
from standfast.server.route import log_action
from standfast.views import JobView
from standfast.wings.access.words import Grant, Right
from standfast.wings.jobs.job_query import WantedJobs
from standfast.wings.jobs.pages import OURS_TOO, is_wanted, job_query

MOST = 1000
"""The most jobs that one form looks through; the page leads on to older ones."""
LONGEST = 10.0
"""Seconds after which it looks no further, even if few jobs matched; proxies give up at thirty."""
PAGE = 200
LONGEST_REASON = 500
WAITS = frozenset({State.QUEUED})
GOES_ON = frozenset({State.QUEUED, State.RUNNING, State.WAITING})
"""What may be cancelled here: letters have verbs of their own."""


Doing = Callable[[JobView], Awaitable[int]]
"""Does something to one job, and returns to how many jobs it was done."""


class Counts(NamedTuple):
    """How many of the matching jobs it was done to, how many were left, and where the older ones begin."""

    done: int
    left: int
    cursor: int | None


class Verb(NamedTuple):
    """What to do, and to jobs in which states."""

    name: str
    does: Callable[[str], Awaitable[Any]]
    fits: frozenset[State]


def endpoint(sf: Standfast, gate: Gatekeeper, cache: SharedCache) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of the form. Without a reason it counts jobs and asks for one; with a reason it acts."""

    async def perform(request: Request, grant: Grant) -> RenderedPage:
        fields = await read_ours(request)
        check_right(grant, Right.OPERATE)
        named = [(name[7:], text) for name, text in fields.items() if name.startswith("filter.")]
        filters = read_filters([each for each in named if each[0] != OURS_TOO], WantedJobs)
        if not filters:
            raise Problem(422, "no-filter", "the request does not say which jobs", "Filter first; nothing was changed.")
        verb = _find_verb(sf, grant, fields.get("verb", ""))
        because = fields.get("reason", "").strip()[:LONGEST_REASON]
        filters |= {OURS_TOO: "1"} if fields.get(f"filter.{OURS_TOO}") else {}
        doing = _doing(grant, verb, because) if because else _counting(grant, verb)
        counts = await _all(sf, grant, doing, filters, read_cursor(fields.get("cursor", "")))
        cache.forget()
        return RenderedPage("many.html", {"counts": counts, "verb": verb.name, "asked": filters, "because": because})

    return page_endpoint(gate, perform)


async def _all(sf: Standfast, grant: Grant, doing: Doing, filters: dict[str, str], cursor: int | None) -> Counts:
    until, done, seen = time.monotonic() + LONGEST, 0, 0
    while True:
        page = await sf.jobs(limit=PAGE, cursor=cursor, reach=grant.reach(), **job_query(filters))
        seen, cursor = seen + len(page), page.next_cursor
        for job in page:
            done += await doing(job) if is_wanted(job, filters) else 0
        if cursor is None or seen >= MOST or time.monotonic() > until:
            return Counts(done, seen - done, cursor)


def _find_verb(sf: Standfast, grant: Grant, name: str) -> Verb:
    match name:
        case "cancel":
            return Verb(name, partial(sf.cancel, by=grant.person), GOES_ON)
        case "retry":
            return Verb(name, partial(sf.retry, by=grant.person, session=agent_session(grant)), WAITS)
    raise Problem(422, "unknown-verb", "the request does not say what to do with the jobs", "Choose retry or cancel.")


def _doing(grant: Grant, verb: Verb, because: str) -> Doing:
    return partial(_one, grant, verb, because)


def _counting(grant: Grant, verb: Verb) -> Doing:
    """Count the jobs that it would be done to, and change none of them."""

    async def count(job: JobView) -> int:
        return int(_fits(grant, verb, job))

    return count


def _fits(grant: Grant, verb: Verb, job: JobView) -> bool:
    return grant.reaches(job.queue) and job.state in verb.fits


async def _one(grant: Grant, verb: Verb, because: str, job: JobView) -> int:
    """Do it to one job; a job that went on meanwhile is left alone."""
    if not _fits(grant, verb, job):
        return 0
    try:
        answer = await verb.does(job.id)
    except StoreUnavailable:
        raise
    except StandfastError:
        return 0
    if isinstance(answer, dict) and answer.get("refused"):
        return 0
    log_action(grant, f"POST /jobs/many {verb.name}", job.id, f"({because})")
    return 1
