"""The tool that reports health."""

from __future__ import annotations

from mcp.types import CallToolResult

from standfast.mcp.agent import Agent
from standfast.mcp.tool import LOOKS, AgentTool
from standfast.server import visible as reached
from standfast.wings.access.words import Right

HEALTHY = "Nothing is wrong with the queues."
DEGRADED = "Something is wrong, as issues say. Tell a person; calls are kept, and may take longer."


async def health(agent: Agent) -> CallToolResult:
    """Say what is wrong."""
    grant = agent.who.grant
    found = await (agent.sf.health() if grant is None else reached.health(agent.sf, grant))
    return agent.answer({**found, "hint": HEALTHY if found["status"] == "healthy" else DEGRADED})


TOOLS = (AgentTool(health, LOOKS, (Right.READ,)),)
