"""Tools about a session's messages: inbox, ack."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from standfast.mcp.agent import Agent
from standfast.mcp.tool import TIDIES, AgentTool

MessageId = Annotated[str, Field(max_length=100)]
INBOX = "retry_exhausted and submit_failed want you to act, and stay until you ack them; the others are read now."
EMPTY = "Nothing is waiting for this session. jobs lists what it did, also what ended well while it was there."
ACKNOWLEDGED = "It is read, and not shown again. Nothing else was changed."


async def inbox(agent: Agent, *, unread: bool = True) -> CallToolResult:
    """Read what became of your work."""
    messages = await agent.sf.inbox.list(agent.who.session, unread=unread)
    return agent.answer({"messages": messages, "hint": INBOX if messages else EMPTY})


async def ack(agent: Agent, id: MessageId) -> CallToolResult:
    """Mark a message as dealt with."""
    await agent.sf.inbox.ack(id, session=agent.who.session)
    return agent.answer({"id": id, "acknowledged": True, "hint": ACKNOWLEDGED})


TOOLS = (AgentTool(inbox, TIDIES), AgentTool(ack, TIDIES))
