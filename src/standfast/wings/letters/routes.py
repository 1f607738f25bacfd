"""Routes about letters: reading them, deciding about one, and deleting many."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from standfast.server.auth import agent_session
from standfast.server.fields import OptionalReasonBody, ReasonBody
from standfast.server.problems import Problem
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import found_job
from standfast.server.token_view import job_for, values_for
from standfast.wings.access.words import Right
from standfast.wings.letters.shapes import LetterGroups, LetterPage, PurgedLetters, ReplayOutcome
from standfast.wings.records.letter_filter import as_filter
from standfast.wings.records.letter_query import WantedLetters, WantedPage
from standfast.wings.records.letter_reach import check_one_queue, check_queue_of
from standfast.wings.records.shapes import ShownJob

OUTCOMES = {"replayed": 202, "resolved": 200, "denied": 403, "approval_required": 409, "consent_required": 409}
"""The HTTP status of each outcome of a replay."""


class Amendment(ReasonBody, frozen=True, forbid_unknown_fields=True):
    """Another payload, and why."""

    payload: Any


class Resolution(ReasonBody, frozen=True, forbid_unknown_fields=True):
    """Why it is done; with a result, the person vouches for it."""

    result: Any | UnsetType = UNSET


class Quarantine(ReasonBody, frozen=True, forbid_unknown_fields=True):
    """Why, and who owns the letter now."""

    owner: str | None = None


class PurgeRequest(ReasonBody, frozen=True, forbid_unknown_fields=True):
    """Letters to delete for good: `confirm` is how many there are."""

    confirm: Annotated[int, Meta(ge=0, lt=1 << 62)]
    filter: WantedLetters = WantedLetters()


async def list_letters(call: Call) -> Answer:
    """List letters, the newest first."""
    wanted: WantedPage = call.query
    check_queue_of(call.grant, wanted)
    paging: dict[str, Any] = {"limit": wanted.limit, "cursor": wanted.cursor, "queues": call.grant.queues}
    page = await call.sf.dead_letters.list(as_filter(wanted.chosen()), **paging)
    return Answer({"items": [job_for(letter, call.grant) for letter in page], "next_cursor": page.next_cursor})


async def groups(call: Call) -> Answer:
    """Group letters by cause."""
    wanted: WantedLetters = call.query
    check_one_queue(call.grant, wanted)
    return Answer({"items": values_for(await call.sf.dead_letters.groups(as_filter(wanted.chosen())), call.grant)})


async def one(call: Call) -> Answer:
    """Return one letter, whole."""
    job = await found_job(call)  # a caller who does not reach the job learns nothing, not even whether it is a letter
    return Answer(job_for(await call.sf.dead_letters.get(job.id), call.grant))


async def replay(call: Call) -> Answer:
    """Put a letter back to work, if the policy lets it."""
    job = await found_job(call)
    actor: dict[str, Any] = {"by": call.grant.person, "session": agent_session(call.grant)}
    answer = await call.sf.dead_letters.replay(job.id, reason=call.body.reason, **actor)
    if answer["outcome"] == "denied":
        detail = f"rule {answer['rule']} denies it{': ' if answer.get('why') else ''}{answer.get('why') or ''}"
        raise Problem(403, "policy-denied", detail, "Do not ask again; the policy's owners can say more.", **answer)
    if answer["outcome"] == "approval_required":
        hint = f"Have it approved: POST /api/v1/approvals/{answer['approval']}/approve, by another person."
        raise Problem(409, "approval-required", f"rule {answer['rule']} requires a person's approval", hint, **answer)
    if answer["outcome"] == "consent_required":
        hint = f"Have a person answer it: POST /api/v1/consents/{job.id}/grant or /deny."
        raise Problem(409, "consent-required", answer["why"], hint, **answer)
    return Answer(answer, OUTCOMES[answer["outcome"]])


async def amend(call: Call) -> Answer:
    """Change a letter's payload."""
    job = await found_job(call)
    given: Amendment = call.body
    changed = await call.sf.dead_letters.amend(job.id, given.payload, by=call.grant.person, reason=given.reason)
    return Answer(job_for(changed, call.grant))


async def resolve(call: Call) -> Answer:
    """End a letter whose effect exists."""
    job = await found_job(call)
    given: Resolution = call.body
    word = {} if given.result is UNSET else {"result": given.result}
    ended = await call.sf.dead_letters.resolve(job.id, by=call.grant.person, reason=given.reason, **word)
    return Answer(job_for(ended, call.grant))


async def discard(call: Call) -> Answer:
    """Cancel a letter for good."""
    job = await found_job(call)
    ended = await call.sf.dead_letters.discard(job.id, by=call.grant.person, reason=call.body.reason)
    return Answer(job_for(ended, call.grant))


async def quarantine(call: Call) -> Answer:
    """Quarantine a letter for its owner."""
    job = await found_job(call)
    given: Quarantine = call.body
    options: dict[str, Any] = {"by": call.grant.person, "reason": given.reason, "owner": given.owner}
    return Answer(job_for(await call.sf.dead_letters.quarantine(job.id, **options), call.grant))


async def purge(call: Call) -> Answer:
    """Delete letters for good."""
    given: PurgeRequest = call.body
    check_one_queue(call.grant, given.filter)
    options: dict[str, Any] = {"by": call.grant.person, "reason": given.reason, "confirm": given.confirm}
    return Answer(await call.sf.dead_letters.purge(as_filter(given.filter.chosen()), **options))


_LETTER = "/dead-letters/{id}"

ROUTES = (
    Route(
        "GET",
        "/dead-letters",
        Right.READ,
        list_letters,
        "List letters, the newest first",
        query=WantedPage,
        answer=LetterPage,
    ),
    Route(
        "GET",
        "/dead-letters/groups",
        Right.READ,
        groups,
        "Group letters by cause",
        query=WantedLetters,
        answer=LetterGroups,
    ),
    Route(
        "DELETE",
        "/dead-letters",
        Right.ADMINISTER,
        purge,
        "Delete letters for good",
        body=PurgeRequest,
        answer=PurgedLetters,
    ),
    Route("GET", _LETTER, Right.READ, one, "Get one letter", answer=ShownJob),
    Route(
        "POST",
        f"{_LETTER}/replay",
        Right.OPERATE,
        replay,
        "Put a letter back to work",
        body=OptionalReasonBody,
        answer=ReplayOutcome,
        answers=(202, 200),
    ),
    Route(
        "POST", f"{_LETTER}/amend", Right.OPERATE, amend, "Change a letter's payload", body=Amendment, answer=ShownJob
    ),
    Route("POST", f"{_LETTER}/resolve", Right.OPERATE, resolve, "Resolve a letter", body=Resolution, answer=ShownJob),
    Route("POST", f"{_LETTER}/discard", Right.OPERATE, discard, "Discard a letter", body=ReasonBody, answer=ShownJob),
    Route(
        "POST",
        f"{_LETTER}/quarantine",
        Right.OPERATE,
        quarantine,
        "Quarantine a letter",
        body=Quarantine,
        answer=ShownJob,
    ),
)
