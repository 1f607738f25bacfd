"""Tools about letters: list_dead_letters, propose_replay."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from mcp.types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from standfast.mcp.agent import Agent
from standfast.mcp.tool import ACTS, LOOKS, AgentTool, Id
from standfast.wings.access.words import Right

MOST_LETTERS = 50
PROPOSED = {
    "replayed": "The policy allows it and it is queued again; it is not done yet. Call wait, or look with status.",
    "resolved": "Nothing was run: a check found that it had been done already.",
    "denied": "The policy denies a replay. Do not ask again; tell a person, with the rule.",
    "approval_required": "A person must approve it. The request is filed; do not ask again. It runs once approved.",
}
"""What an agent does next, by what became of its proposal."""
LETTERS = "To have one run again, use propose_replay with a reason; explain says why it stopped."


class Letters(TypedDict):
    """A page of dead letters, the newest first."""

    items: list[dict[str, Any]]
    next_cursor: int | None
    hint: str


class Proposed(TypedDict):
    """What became of a proposal to replay a letter."""

    id: str
    outcome: Literal["replayed", "resolved", "denied", "approval_required"]
    hint: str
    approval: NotRequired[str]
    rule: NotRequired[str]
    why: NotRequired[str | None]


async def list_dead_letters(
    agent: Agent,
    *,
    queue: str | None = None,
    reason_code: str | None = None,
    fingerprint: Annotated[str | None, Field(description="Only letters of one cause.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST_LETTERS)] = 20,
    cursor: Annotated[int | None, Field(description="next_cursor of the page before.")] = None,
) -> Annotated[CallToolResult, Letters]:
    """List letters: jobs that stopped and need a person, the newest first."""
    agent.who.check(Right.READ)
    if queue is not None:
        agent.who.check_queue(queue)
    given = {"queue": queue, "reason_code": reason_code, "fingerprint": fingerprint}
    wanted = {name: value for name, value in given.items() if value is not None}
    queues = None if agent.who.grant is None else agent.who.grant.queues
    page = await agent.sf.dead_letters.list(wanted, limit=limit, cursor=cursor, queues=queues)
    letters = [letter for letter in page if agent.who.sees(letter)]
    return agent.answer({"items": letters, "next_cursor": page.next_cursor, "hint": LETTERS})


async def propose_replay(
    agent: Agent,
    id: Id,
    reason: Annotated[str, Field(description="Why it should run again; it is kept in the audit.", min_length=1)],
) -> Annotated[CallToolResult, Proposed]:
    """Propose that a letter runs again. The policy decides; where it wants a person, this files the request."""
    agent.who.check(Right.OPERATE, Right.ENQUEUE)
    letter = await agent.find_job(id)
    actor = {"by": agent.who.person, "session": agent.who.session}
    answer = await agent.sf.dead_letters.replay(letter.id, reason=reason, **actor)
    outcome = answer["outcome"]
    return agent.answer({"id": letter.id, **answer, "hint": PROPOSED[outcome]}, failed=outcome == "denied")


TOOLS = (AgentTool(list_dead_letters, LOOKS), AgentTool(propose_replay, ACTS))
