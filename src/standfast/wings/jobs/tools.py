"""Tools about jobs: status, wait, retry, explain."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from standfast.mcp.agent import PATIENCE, Agent
from standfast.mcp.tool import ACTS, LOOKS, AgentTool, Id
from standfast.server.token_view import left_out
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import NOT_YOURS, is_stalled, reply
from standfast.wings.calls.tools import Reply

STILL_THERE = "It is still {view} after {seconds:g} s and goes on without you. Call wait again, or look with status."

ANOTHERS = "It is another session's. Look with status; if it should be run again, propose_replay asks for that."


class Looked(TypedDict):
    """A job as it stands."""

    job: dict[str, Any]
    hint: str


class Explained(TypedDict):
    """One sentence about a job, with its evidence."""

    id: str
    explanation: str


async def status(agent: Agent, id: Id) -> Annotated[CallToolResult, Looked]:
    """Look at a job: its state, attempts, failure, history, result. Looking changes nothing."""
    job = await agent.find_job(id)
    without = left_out(agent.who.grant, job)
    return agent.answer({"job": job, "hint": reply(job)["hint"]}, without=without)


async def wait(
    agent: Agent,
    id: Id,
    timeout: Annotated[float, Field(description=f"Seconds, at most {PATIENCE:g}.", gt=0)] = PATIENCE,
) -> Annotated[CallToolResult, Reply]:
    """Wait until a job is settled. Capped: while it goes on, the hint says to call again."""
    seconds = min(timeout, PATIENCE)
    job = await agent.find_job(id)
    try:
        return agent.answer(reply(await agent.sf.wait(job.id, seconds)))
    except TimeoutError:
        job = await agent.find_job(id)
        still = None if is_stalled(job) else STILL_THERE.format(view=job.view, seconds=seconds)
        return agent.answer(reply(job, still))


async def retry(agent: Agent, id: Id) -> Annotated[CallToolResult, Reply]:
    """Run a job of this session again as soon as may be. The policy decides about one that failed for good."""
    job = await agent.find_job(id)
    if job.session is not None and not agent.who.owns(job):
        return agent.answer({**reply(job, ANOTHERS), "reason_code": NOT_YOURS}, failed=True)
    agent.who.check(Right.OPERATE, Right.ENQUEUE)
    return agent.answer(await agent.sf.retry(id, by=agent.who.person, session=agent.who.session))


async def explain(agent: Agent, id: Id) -> Annotated[CallToolResult, Explained]:
    """Say in one sentence, with evidence, why a job is where it is."""
    job = await agent.find_job(id)
    return agent.answer({"id": job.id, "explanation": await agent.sf.explain(job.id)})


TOOLS = (AgentTool(status, LOOKS), AgentTool(wait, LOOKS), AgentTool(retry, ACTS), AgentTool(explain, LOOKS))
