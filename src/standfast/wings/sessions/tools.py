"""Tools about a session's messages: inbox, ack."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from standfast.mcp.agent import Agent
from standfast.mcp.tool import TIDIES, AgentTool

INBOX = "retry_exhausted and submit_failed want you to act, and stay until you ack them; the others are read now."
EMPTY = "Nothing is waiting for this session."


class Messages(TypedDict):
    """What waits in this session's inbox."""

    messages: list[dict[str, Any]]
    hint: str


class Acknowledged(TypedDict):
    """A message that is done with."""

    id: str
    acknowledged: bool


async def inbox(
    agent: Agent, *, unread: Annotated[bool, Field(description="Only what was not read yet.")] = True
) -> Annotated[CallToolResult, Messages]:
    """Read what became of this session's work: retries that succeeded or gave up, submissions that ended."""
    messages = await agent.sf.inbox.list(agent.who.session, unread=unread)
    return agent.answer({"messages": messages, "hint": INBOX if messages else EMPTY})


async def ack(
    agent: Agent, id: Annotated[str, Field(description="The message's id.")]
) -> Annotated[CallToolResult, Acknowledged]:
    """Say that a message of this session's inbox is dealt with."""
    await agent.sf.inbox.ack(id, session=agent.who.session)
    return agent.answer({"id": id, "acknowledged": True})


TOOLS = (AgentTool(inbox, TIDIES), AgentTool(ack, TIDIES))
