"""Pages about jobs: finding them, and one with everything that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from standfast.dashboard.actions import Action, Back
from standfast.dashboard.page import Drawn, Elsewhere, Visit
from standfast.dashboard.page import Page as WebPage
from standfast.doors.filters import fields_of, names_of
from standfast.errors import ConfigurationError
from standfast.lifecycle import FINAL, LETTERS, State
from standfast.rules import OURS
from standfast.server import visible as reached
from standfast.server.seen import all_shown, seen, worded
from standfast.views import JobView
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import reply
from standfast.wings.jobs.job_query import WantedJobs
from standfast.wings.records.view import Page

FILTERS = names_of(WantedJobs)
FIELDS = tuple(sorted(fields_of(WantedJobs), key=lambda field: not field.about.is_search))
"""What the form asks for, what most people look by first."""
OURS_TOO = "ours"
"""What asks for jobs of our own queues as well, which carry alerts and notices out."""
PAGE = 50
MOST_PAGES = 5
"""Pages that are looked through for one, where jobs of our own are left out."""
DECISIONS = 20


async def listed(visit: Visit) -> Drawn | Elsewhere:
    """Show the jobs that fit, the newest first."""
    asked = visit.asked(*FILTERS, OURS_TOO)
    if "q" in asked and (exact := await _known(visit, asked["q"])) is not None:
        return Elsewhere(f"/jobs/{exact.id}")
    page, wrong = Page(), None
    try:
        page = await _page(visit, asked)
    except ConfigurationError as error:
        wrong = str(error)
    context = {"jobs": [seen(job, visit.grant) for job in page], "asked": asked, "wrong": wrong}
    words = {
        "filtered": bool(sought(asked)),
        "fields": FIELDS,
        "next_cursor": page.next_cursor,
    }
    return Drawn("jobs.html", {**context, **words})


def sought(asked: Mapping[str, str]) -> dict[str, Any]:
    """Give what the queue is asked for."""
    return {name: value for name, value in asked.items() if name != OURS_TOO}


def is_meant(job: JobView, asked: Mapping[str, str]) -> bool:
    """Tell whether a job is meant: those of our own queues only if they are asked for."""
    return OURS_TOO in asked or "queue" in asked or not job.queue.startswith(OURS)


async def _page(visit: Visit, asked: Mapping[str, str]) -> Page:
    found, cursor = Page(), visit.cursor()
    for _ in range(MOST_PAGES):
        most = PAGE - len(found)
        page = await visit.sf.jobs(limit=most, cursor=cursor, reach=visit.grant.reach(), **sought(asked))
        found.extend(job for job in page if is_meant(job, asked))
        found.next_cursor = cursor = page.next_cursor
        if cursor is None or len(found) == PAGE:
            break
    return found


async def _known(visit: Visit, text: str) -> JobView | None:
    """Find the job that a text is the id of."""
    if not text.isascii() or " " in text:
        return None
    return await reached.perhaps_job(visit.sf, visit.grant, text)


async def one(visit: Visit) -> Drawn:
    """Show a job: why it is where it is, what happened so far, and what can be done."""
    job = await reached.job(visit.sf, visit.grant, visit.path["id"])
    reads, letter = visit.grant.may(Right.READ), job.state in LETTERS
    context = {
        "job": seen(job, visit.grant),
        "hint": reply(job)["hint"],
        "letter": letter,
        "final": job.state in FINAL,
        "retryable": job.state == State.QUEUED,
        "approval": await visit.sf.approvals.of(job.id) if letter and reads else None,
        "decisions": all_shown(await visit.sf.audit.last(DECISIONS, job=job.id), visit.grant) if reads else [],
        "whole": visit.grant.may(Right.READ_PAYLOADS),
        "explained": await _explained(visit, job),
    }
    return Drawn("job.html", context)


async def _explained(visit: Visit, job: JobView) -> str:
    """Say why it is where it is; beside very many jobs that takes longer than a page may, and follows."""
    key = ("explain", job.id, job.state, job.attempts)
    told = await visit.cache.get_soon(key, partial(visit.sf.explain, job.id))
    if told is None:
        return "Why it is where it is, is being looked up."
    return worded(str(told.value), visit.grant, job)


PAGES = (WebPage("/jobs", listed, also=Right.READ_OWN), WebPage("/jobs/{id}", one, also=Right.READ_OWN))
ACTIONS = (
    Action(
        "/jobs/{id}/retry",
        "POST",
        "/jobs/{id}/retry",
        Back("/jobs/{id}", "retry", "Done: it runs again as soon as it may."),
    ),
    Action(
        "/jobs/{id}/cancel",
        "POST",
        "/jobs/{id}/cancel",
        Back("/jobs/{id}", "cancel", "Done: it is cancelled, or was asked to stop if it was running."),
    ),
)
