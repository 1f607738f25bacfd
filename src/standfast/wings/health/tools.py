"""The tool that judges the queue."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult
from typing_extensions import TypedDict

from standfast.mcp.agent import Agent
from standfast.mcp.tool import LOOKS, AgentTool
from standfast.server import visible as reached
from standfast.wings.access.words import Right


class Health(TypedDict):
    """How the queue is, and what is wrong."""

    status: str
    issues: list[str]
    total_pending: int
    total_dead_letter: int


async def health(agent: Agent) -> Annotated[CallToolResult, Health]:
    """Judge the queue: what is wrong, how much waits, how many letters lie there."""
    agent.who.check(Right.READ)
    grant = agent.who.grant
    return agent.answer(await (agent.sf.health() if grant is None else reached.health(agent.sf, grant)))


TOOLS = (AgentTool(health, LOOKS),)
