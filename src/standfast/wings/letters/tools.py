"""Tools about letters: list_dead_letters, propose_replay."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from standfast.mcp.agent import Agent
from standfast.mcp.tool import ACTS, LOOKS, AgentTool, Id
from standfast.wings.access.words import Right
from standfast.wings.calls.refused_retries import closed_to_agents
from standfast.wings.records.letter_filter import as_filter

MOST_LETTERS = 50
PROPOSED = {
    "replayed": "The policy allows it and it is queued again; it is not done yet. Call wait, or look with status.",
    "resolved": "Nothing was run: a check found that it had been done already.",
    "denied": "The policy denies a replay. Do not ask again; tell a person, with the rule.",
    "approval_required": "A person must approve it. The request is filed; do not ask again. It runs once approved.",
    "consent_required": "It was not replayed: a person must consent, and it goes on by itself then. Do not ask again.",
}
"""What an agent does next, by what became of its proposal."""
LETTERS = "To have one run again, use propose_replay with a reason; explain says why it stopped."


STATUS = {
    "replayed": "queued",
    "resolved": "ok",
    "denied": "failed",
    "approval_required": "held",
    "consent_required": "held",
}
"""How a reply words the same."""


async def list_dead_letters(
    agent: Agent,
    *,
    queue: str | None = None,
    reason_code: str | None = None,
    fingerprint: str | None = None,
    limit: Annotated[int, Field(ge=1, le=MOST_LETTERS)] = 20,
    cursor: int | None = None,
) -> CallToolResult:
    """List stopped jobs."""
    if queue is not None:
        agent.who.check_queue(queue)
    given = {"queue": queue, "reason_code": reason_code, "fingerprint": fingerprint}
    wanted = {name: value for name, value in given.items() if value is not None}
    queues = None if agent.who.grant is None else agent.who.grant.queues
    page = await agent.sf.dead_letters.list(as_filter(wanted), limit=limit, cursor=cursor, queues=queues)
    letters = [letter for letter in page if agent.who.sees(letter)]
    return agent.answer({"items": letters, "next_cursor": page.next_cursor, "hint": LETTERS})


async def propose_replay(agent: Agent, id: Id, reason: Annotated[str, Field(min_length=1)]) -> CallToolResult:
    """Ask to run a stopped job again."""
    letter = await agent.find_job(id)
    actor = {"by": agent.who.person, "session": agent.who.session}
    decided = await agent.sf.dead_letters.replay(letter.id, reason=reason, **actor)
    outcome = decided["outcome"]
    named = {"operation_id": letter.id, "id": letter.id}
    hint = closed_to_agents(decided, "replayed") or PROPOSED[outcome]
    return agent.answer({**named, **decided, "status": STATUS[outcome], "hint": hint})


TOOLS = (
    AgentTool(list_dead_letters, LOOKS, (Right.READ,)),
    AgentTool(propose_replay, ACTS, (Right.OPERATE, Right.ENQUEUE)),
)
