"""Tools about jobs: status, jobs, result, wait, retry, cancel, explain."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from mcp.types import CallToolResult
from pydantic import Field

from standfast.errors import NotALetter
from standfast.lifecycle import FINAL, LETTERS, State
from standfast.mcp.agent import PATIENCE, Agent
from standfast.mcp.outside import shown_whole
from standfast.mcp.progress_notifications import told_progress
from standfast.mcp.tool import ACTS, LOOKS, STOPS, AgentTool, Id
from standfast.server.token_view import explanation_for, left_out
from standfast.views import JobView
from standfast.wings.access.words import Reach, Right
from standfast.wings.calls.replies import is_stalled, not_cancelled, part_of, reply
from standfast.wings.consent.rules import awaits_consent

STILL_THERE = "It is still {view} after {seconds:g} s and goes on without you. Call wait again, or look with status."
ANOTHERS = "It is another session's. Look with status; if it should be run again, propose_replay asks for that."
NOT_CANCELLED = "It is another session's, and nothing was cancelled. Tell a person if it must not run."
STOPPED = "It has stopped already, and what becomes of it is a person's decision. Nothing was cancelled; see explain."
WITHDRAWN = "It was withdrawn before it was begun: no person is asked about it any more. {hint}"
ASKED_TO_STOP = "It was asked to stop. It ends cancelled unless this attempt succeeds first; call wait to see which."
DONE = "It is done; nothing is left to do. result gives its result."
MORE_JOBS = "There are older ones: call jobs again with next_cursor. status with an id tells all of one."
ALL_JOBS = "These are all. status with an id tells all of one; result gives its whole result."
PAGE = 16_000
"""Characters of a result's JSON text on one page; a shorter result is given as it is."""
MORE_PAGES = "This is part of the result's JSON text. Call result again with cursor {cursor}, and join the texts."
LAST_PAGE = "This is the last part of the result's JSON text."
MOST_JOBS = 50
RECENT = 5
"""How many jobs the overview shows."""
LONGEST_PARAMS = 300
"""The longest payload that a list shows, in characters; of a longer one the keys are named."""
LONGEST_ERROR = 200
TOLD = ("reason_code", "retry_at", "queue_reason")
"""What a list takes over from a reply."""
NO_JOBS = "You have no such job."
UNREAD = (
    "Unread messages: {unread}. Read inbox: it tells what ended or stopped while you were away. jobs lists all of it."
)
OPEN = "Jobs of yours that are not done: {open}. jobs lists them, wait waits for one. Do not call them again."
HELD = "{held} of your jobs wait for a person: jobs(state=held) lists them. Do not call them again."
DEAD = "{dead} of your jobs failed for good: jobs(state=dead) lists them, and explain says what to do about one."
NO_TOOLS = "Nothing of yours is under way, and there is no handler that you may call. jobs and status look at jobs."
IDLE = "Nothing of yours is under way. Call one of your tools; capabilities says which there are."


async def status(agent: Agent, id: Id | None = None) -> CallToolResult:
    """Show a job; without id, the overview."""
    if id is None:
        return await _overview(agent)
    job = await agent.find_job(id)
    worded = reply(job)
    shown = {"operation_id": job.id, "status": worded["status"], "job": job, "hint": worded["hint"]}
    return agent.answer(shown, without=left_out(agent.who.grant, job))


async def _overview(agent: Agent) -> CallToolResult:
    """Say which jobs this session has, what became of them lately, and what it may call."""
    found = await agent.sf.inbox.overview(agent.who.session, queues=agent.queues)
    recent = await _own_jobs(agent, limit=RECENT)
    tools = [_capability(each.described()) for each in (await agent.handler_tools()).values()]
    return agent.answer(
        {
            "session": agent.who.session,
            **found,
            "recent": [_brief(job) for job in recent],
            "capabilities": tools,
            "hint": _next(found, callable_=bool(tools)),
        }
    )


def _next(found: dict[str, Any], *, callable_: bool) -> str:
    """Say what to do next: about messages, else about unfinished jobs, else that there is nothing."""
    if found["unread"]:
        return UNREAD.format(unread=found["unread"])
    counts = found["jobs"]
    unfinished = sum(count for state, count in counts.items() if state not in {*FINAL, *LETTERS})
    held, dead = counts.get(State.HELD, 0), counts.get(State.DEAD, 0)
    said = [OPEN.format(open=unfinished)] if unfinished else []
    said += [HELD.format(held=held)] if held else []
    said += [DEAD.format(dead=dead)] if dead else []
    return " ".join(said) or (IDLE if callable_ else NO_TOOLS)


def _capability(described: dict[str, Any]) -> dict[str, Any]:
    """Return what the overview says of a handler: what it declares, without what the listing of tools says anyway."""
    return {name: value for name, value in described.items() if value and name != "description"}


async def jobs(
    agent: Agent,
    *,
    state: str | None = None,
    limit: Annotated[int, Field(ge=1, le=MOST_JOBS)] = 10,
    cursor: int | None = None,
) -> CallToolResult:
    """List your jobs, newest first."""
    page = await _own_jobs(agent, state, limit=limit, cursor=cursor)
    hint = MORE_JOBS if page.next_cursor is not None else ALL_JOBS if page else NO_JOBS
    return agent.answer({"jobs": [_brief(job) for job in page], "next_cursor": page.next_cursor, "hint": hint})


async def _own_jobs(agent: Agent, state: str | None = None, *, limit: int, cursor: int | None = None) -> Any:
    chosen: dict[str, Any] = {"state" if state in set(State) else "view": state} if state else {}
    reach = Reach(agent.queues)
    return await agent.sf.jobs(session=agent.who.session, limit=limit, cursor=cursor, reach=reach, **chosen)


def _brief(job: JobView) -> dict[str, Any]:
    """Return what distinguishes a job from others, and how it stands."""
    worded = reply(job)
    told: dict[str, Any] = {name: worded[name] for name in TOLD if name in worded}
    return {
        "id": job.id,
        "handler": f"{job.queue}/{job.handler}",
        "status": worded["status"],
        "view": job.view,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "params": _short(job.payload),
        **told,
        **_error_of(worded),
    }


def _error_of(worded: dict[str, Any]) -> dict[str, Any]:
    """Return a reply's error as a list shows it."""
    error = worded.get("error")
    if not error:
        return {}
    if len(error) <= LONGEST_ERROR:
        return {"error": error}
    return {"error": f"{error[:LONGEST_ERROR]}…", "_truncated": True}


def _short(payload: Any) -> Any:
    if len(msgspec.json.encode(payload)) <= LONGEST_PARAMS:
        return payload
    return {"_truncated": True, **({"keys": list(payload)[:10]} if isinstance(payload, dict) else {})}


async def result(
    agent: Agent, id: Id, key: str | None = None, cursor: Annotated[int, Field(ge=0)] = 0
) -> CallToolResult:
    """Give a job's whole result, by pages."""
    job = await agent.find_job(id)
    if job.state != State.COMPLETED:
        return agent.answer(reply(job))
    value = job.result if key is None else part_of(job, key)
    without = left_out(agent.who.grant, job)
    shown = shown_whole(value, key if key and "result" not in without else "result", without)
    head = {name: each for name, each in reply(job).items() if name in {"operation_id", "status", "warning", "hint"}}
    text = msgspec.json.encode(shown).decode()
    if cursor == 0 and len(text) <= PAGE:
        return agent.answer({**head, "hint": "It is done; the result is here."}, clean={"result": shown})
    return agent.answer({**head, **_place(text, cursor)}, clean={"text": text[cursor : cursor + PAGE]})


def _place(text: str, cursor: int) -> dict[str, Any]:
    """Say where a page stands in the whole text, and what comes after it."""
    following = cursor + PAGE if cursor + PAGE < len(text) else None
    hint = LAST_PAGE if following is None else MORE_PAGES.format(cursor=following)
    return {"cursor": cursor, "next_cursor": following, "total_chars": len(text), "hint": hint}


async def wait(agent: Agent, id: Id, timeout: Annotated[float, Field(gt=0)] = PATIENCE) -> CallToolResult:
    """Wait up to 30 s for a job's end."""
    seconds = min(timeout, PATIENCE)
    job = await agent.find_job(id)
    try:
        async with told_progress(job.id, agent.look):
            return agent.answer(reply(await agent.sf.wait(job.id, seconds)))
    except TimeoutError:
        job = await agent.find_job(id)
        still = None if is_stalled(job) else STILL_THERE.format(view=job.view, seconds=seconds)
        return agent.answer(reply(job, still))


async def retry(agent: Agent, id: Id) -> CallToolResult:
    """Run your job again, if policy allows."""
    job = await agent.find_job(id)
    if job.session is not None and not agent.who.owns(job):
        return agent.refuse(job, ANOTHERS)
    return agent.answer(await agent.sf.retry(id, by=agent.who.person, session=agent.who.session))


async def cancel(agent: Agent, id: Id) -> CallToolResult:
    """Cancel your job."""
    job = await agent.find_job(id)
    if not agent.who.owns(job):
        return agent.refuse(job, NOT_CANCELLED)
    if awaits_consent(job):
        with suppress(NotALetter):
            return await _withdrawn(agent, job)
        job = await agent.find_job(id)  # a person answered first
    if job.state in LETTERS:
        return agent.refuse(job, STOPPED, reason_code=job.state)
    cancelled = await agent.cancel(job)
    if cancelled.state == State.COMPLETED:
        return agent.answer(not_cancelled(cancelled))
    return agent.answer(reply(cancelled, ASKED_TO_STOP if cancelled.state == State.RUNNING else None))


async def _withdrawn(agent: Agent, job: JobView) -> CallToolResult:
    """End a job of the agent's own that has not begun, so that no person is asked about it any more."""
    await agent.sf.consent.withdraw(job.id, by=agent.who.person)
    await agent.sf.inbox.received(job.id, agent.who.session)
    worded = reply(await agent.find_job(job.id))
    return agent.answer({**worded, "hint": WITHDRAWN.format(hint=worded["hint"])})


async def explain(agent: Agent, id: Id) -> CallToolResult:
    """Say why a job is where it is."""
    job = await agent.find_job(id)
    worded = reply(job)
    why = explanation_for(await agent.sf.explain(job.id), agent.who.grant, job)
    said = {"operation_id": job.id, "id": job.id, "explanation": why}
    hint = DONE if worded["status"] == "ok" else worded["hint"]
    return agent.answer({**said, "status": worded["status"], "hint": hint})


CHANGES = (Right.OPERATE, Right.ENQUEUE)
TOOLS = (
    AgentTool(status, LOOKS),
    AgentTool(jobs, LOOKS),
    AgentTool(result, LOOKS),
    AgentTool(wait, LOOKS),
    AgentTool(explain, LOOKS),
    AgentTool(retry, ACTS, CHANGES),
    AgentTool(cancel, STOPS, CHANGES),
)
