"""Pages about jobs: finding them, and one with everything that is known of it."""

from __future__ import annotations

from functools import partial
from typing import Any

from standfast.access import Right
from standfast.dashboard.pages import Drawn, Elsewhere, Visit
from standfast.errors import ConfigurationError, UnknownJob
from standfast.job import JobView
from standfast.lifecycle import FINAL, LETTERS, VIEWS, State
from standfast.queue.replies import reply
from standfast.queue.view import Page
from standfast.redact import redacted_text
from standfast.server.seen import own, seen

FILTERS = ("queue", "state", "session", "view", "reason_code", "error_kind", "thread_key", "label", "q")
PAGE = 50
DECISIONS = 20


async def listed(visit: Visit) -> Drawn | Elsewhere:
    """Show the jobs that fit, the newest first."""
    asked = visit.asked(*FILTERS)
    if "q" in asked and (exact := await _known(visit, asked["q"])) is not None:
        return Elsewhere(f"/jobs/{exact.id}")
    wanted: dict[str, Any] = dict(asked)
    page, wrong = Page(), None
    try:
        page = await visit.sf.jobs(limit=PAGE, cursor=visit.cursor(), reach=visit.grant.reach(), **wanted)
    except ConfigurationError as error:
        wrong = str(error)
    context = {"jobs": [seen(job, visit.grant) for job in page], "asked": asked, "wrong": wrong}
    words = {"states": list(State), "views": sorted(VIEWS), "next_cursor": page.next_cursor}
    return Drawn("jobs.html", {**context, **words})


async def _known(visit: Visit, text: str) -> JobView | None:
    """Find the job that a text is the id of."""
    if not text.isascii() or " " in text:
        return None
    job = await visit.sf.status(text)
    return job if job is not None and _may_know(visit, job) else None


def _may_know(visit: Visit, job: JobView) -> bool:
    return visit.grant.reaches(job.queue) and own(job, visit.grant)


async def one(visit: Visit) -> Drawn:
    """Show a job: why it is where it is, what happened so far, and what can be done."""
    job = await visit.sf.status(visit.path["id"])
    if job is None or not _may_know(visit, job):
        raise UnknownJob.named(visit.path["id"])
    reads, letter = visit.grant.may(Right.READ), job.state in LETTERS
    context = {
        "job": seen(job, visit.grant),
        "hint": reply(job)["hint"],
        "letter": letter,
        "final": job.state in FINAL,
        "retryable": job.state == State.QUEUED,
        "approval": await visit.sf.approvals.of(job.id) if letter and reads else None,
        "decisions": await visit.sf.audit.last(DECISIONS, job=job.id) if reads else [],
        "whole": visit.grant.may(Right.READ_PAYLOADS),
        "explained": await _explained(visit, job),
    }
    return Drawn("job.html", context)


async def _explained(visit: Visit, job: JobView) -> str:
    """Say why it is where it is; beside very many jobs that takes longer than a page may, and follows."""
    key = ("explain", job.id, job.state, job.attempts)
    told = await visit.beside.perhaps(key, partial(visit.sf.explain, job.id))
    if told is None:
        return "Why it is where it is, is being looked up."
    return str(told.value) if visit.grant.may(Right.READ_PAYLOADS) else redacted_text(told.value)
