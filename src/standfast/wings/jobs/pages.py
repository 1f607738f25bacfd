"""Pages about jobs: the search, and one job with everything that is known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import UNUSABLE, Redirect, RenderedPage, Visit
from standfast.dashboard.page import Page as WebPage
from standfast.doors.filters import FLAG, fields_of, names_of
from standfast.errors import ConfigurationError, WrongAddress
from standfast.lifecycle import FINAL, LETTERS, UNFINISHED, State
from standfast.rules import OURS
from standfast.server import visible as reached
from standfast.server.problems import Problem
from standfast.server.route import Call
from standfast.server.token_view import explanation_for, job_for, text_for, values_for
from standfast.views import JobView
from standfast.wings.access.words import Right
from standfast.wings.audit.verbs import Decisions
from standfast.wings.calls.replies import reply
from standfast.wings.consent.pages import what_is_asked
from standfast.wings.jobs.job_query import WantedJobs
from standfast.wings.jobs.verbs import Snapshot
from standfast.wings.records.letter_query import WantedLetters
from standfast.wings.records.view import Page, one_of

FILTERS = names_of(WantedJobs)
FIELDS = tuple(sorted(fields_of(WantedJobs), key=lambda field: not field.about.is_search))
"""The fields of the form, with those that most people search by first."""
FLAGS = frozenset(field.name for field in FIELDS if field.about.is_flag)
LETTER_FILTERS = frozenset(names_of(WantedLetters))
OURS_TOO = "ours"
"""The field that includes jobs of our own queues, which carry alerts and notices."""
PAGE = 50
MOST_PAGES = 5
"""The most pages that are read to fill one, because jobs of our own queues are left out."""
DECISIONS = 20
LINKS_LOOKED_THROUGH = 10_000
"""The most links of the audit chain that the page of a job goes through: it has no index by job."""


async def list_page(visit: Visit) -> RenderedPage | Redirect:
    """Show the jobs that match, the newest first."""
    filters, page, wrong = visit.typed(*FILTERS, OURS_TOO), Page(), None
    try:
        filters = {**visit.filters(WantedJobs, OURS_TOO), **visit.typed(OURS_TOO)}
        if "q" in filters and (exact := await _job_by_id(visit, filters["q"])) is not None:
            return Redirect(f"/jobs/{exact.id}")
        page = await _page(visit, filters)
    except WrongAddress:
        raise
    except ConfigurationError as error:
        wrong = error.outside
    context = {"jobs": [job_for(job, visit.grant) for job in page], "asked": filters, "wrong": wrong}
    words = {
        "filtered": wrong is None and bool(filters.keys() - {OURS_TOO}),
        "fields": FIELDS,
        "next_cursor": page.next_cursor,
        "stopped": _stopped(filters),
        "letters": letters_query(filters),
    }
    return RenderedPage("jobs.html", {**context, **words}, UNUSABLE if wrong else 200)


def job_query(filters: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of the query."""
    return {name: _read(name, value) for name, value in filters.items() if name != OURS_TOO}


def _read(name: str, value: str) -> str | bool:
    """Read a field of the form; a flag has only two words."""
    return bool(one_of(name, value, FLAG) == "true") if name in FLAGS else value


def is_wanted(job: JobView, filters: Mapping[str, str]) -> bool:
    """Return whether a job is wanted: one of our own queues only if they, a queue or letters are asked for."""
    asked = OURS_TOO in filters or "queue" in filters or _stopped(filters) is not None
    return asked or not job.queue.startswith(OURS)


def _stopped(filters: Mapping[str, str]) -> str | None:
    """Return the state of the letters that a filter asks for; None if it also asks for other jobs."""
    states = {filters[name] for name in ("state", "view") if name in filters}
    return states.pop() if len(states) == 1 and states <= LETTERS else None


def letters_query(filters: Mapping[str, str]) -> dict[str, str] | None:
    """Return the filter that finds exactly the letters among these jobs; None if there are none, or no such filter."""
    state = _stopped(filters)
    named = {name: value for name, value in filters.items() if name not in {"state", "view", OURS_TOO}}
    if not named.keys() <= LETTER_FILTERS or (state is None and not filters.keys().isdisjoint({"state", "view"})):
        return None
    return named if state is None else {"state": state, **named}


async def _page(visit: Visit, filters: Mapping[str, str]) -> Page:
    found, cursor = Page(), visit.cursor()
    for _ in range(MOST_PAGES):
        most = PAGE - len(found)
        page = await visit.sf.jobs(limit=most, cursor=cursor, reach=visit.grant.reach(), **job_query(filters))
        found.extend(job for job in page if is_wanted(job, filters))
        found.next_cursor = cursor = page.next_cursor
        if cursor is None or len(found) == PAGE:
            break
    return found


async def _job_by_id(visit: Visit, text: str) -> JobView | None:
    """Find the job whose id is this text."""
    if not text.isascii() or " " in text:
        return None
    return await reached.perhaps_job(visit.sf, visit.grant, text)


async def one(visit: Visit) -> RenderedPage:
    """Show a job: why it is where it is, what happened so far, and what can be done."""
    found = await reached.snapshot(visit.sf, visit.grant, visit.path["id"])
    job = found.job
    reads, letter = visit.grant.may(Right.READ), job.state in LETTERS
    decisions = await _decisions(visit, job) if reads else Decisions()
    context = {
        "job": job_for(job, visit.grant),
        "hint": reply(job)["hint"],
        "without_traceback": None if job.failure is None else job.failure.without_traceback,
        "letter": letter,
        "final": job.state in FINAL,
        "buttons": [each for each in BUTTONS if job.state in each.states],
        "approval": await visit.sf.approvals.of(job.id) if letter and reads else None,
        "decisions": values_for(decisions, visit.grant),
        "decided_earlier": decisions.since is not None and job.first_seen_at < decisions.since,
        "whole": visit.grant.may(Right.READ_PAYLOADS),
        "explained": await _explained(visit, found),
        "consent": what_is_asked(visit, job),
    }
    return RenderedPage("job.html", context)


async def _decisions(visit: Visit, job: JobView) -> Decisions:
    """Return the last decisions about a job. There are none about a job that only ran, or waits to."""
    stopped_once = job.state in LETTERS or job.triage is not None or job.replays or job.generation or job.history
    if not stopped_once:
        return Decisions()
    return await visit.sf.audit.last(DECISIONS, job=job.id, within=LINKS_LOOKED_THROUGH)


async def _explained(visit: Visit, found: Snapshot) -> str:
    """Say why the job is where the page shows it; with very many jobs that takes too long for a page, and follows."""
    job = found.job
    key = ("explain", job.id, job.state, job.attempts, job.deferrals, job.due_at, job.finished_at, len(job.history))
    cached = await visit.cache.get_soon(key, found.explain)
    if cached is None:
        return "Why it is where it is, is being looked up."
    return text_for(explanation_for(str(cached.value), visit.grant, job), visit.grant, job)


PAGES = (WebPage("/jobs", list_page, also=Right.READ_OWN), WebPage("/jobs/{id}", one, also=Right.READ_OWN))


class AfterVerb(ReturnTo, frozen=True):
    """Leads back to the job, if the verb did what was asked."""

    check: Callable[[Any], None]

    def __call__(self, call: Call, said: Any) -> Redirect:
        """Return the page, or refuse to say that it is done."""
        self.check(said)
        return super().__call__(call, said)


class Button(NamedTuple):
    """A verb about one job that its page offers: what the button says, and what the page says once it is done."""

    verb: str
    title: str
    what: str
    done: str
    done_unless: Callable[[Any], None]
    """Raises if the answer says that nothing was done."""
    states: frozenset[State] = UNFINISHED - LETTERS
    """The states in which a job is offered it."""
    danger: bool = False

    @property
    def action(self) -> Action:
        """The form behind it."""
        path = f"/jobs/{{id}}/{self.verb}"
        return Action(path, "POST", path, AfterVerb("/jobs/{id}", self.verb, self.done, self.done_unless))


def _check_retried(reply: Any) -> None:
    """Show a refused retry as refused; one that a person must approve leads to the approval."""
    if reply.get("refused"):
        more = {"approval": reply["approval"]} if "approval" in reply else {}
        raise Problem(409, "not-retried", "The job was not retried.", reply["hint"], **more)


def _check_cancelled(job: Any) -> None:
    if job["state"] == State.COMPLETED:
        raise Problem(409, "not-cancelled", "Nothing was cancelled: the job was done before.", "Look at its result.")


BUTTONS = (
    Button(
        "retry",
        "Retry now",
        "It is due at once.",
        "Done: it runs again as soon as it may.",
        _check_retried,
        frozenset({State.QUEUED}),
    ),
    Button(
        "cancel",
        "Cancel",
        "It is no longer wanted. A running one is asked to stop, and ends cancelled unless it succeeds.",
        "Done: it is cancelled, or was asked to stop if it was running.",
        _check_cancelled,
        danger=True,
    ),
)
ACTIONS = tuple(each.action for each in BUTTONS)
