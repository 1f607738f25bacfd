"""The resources that an agent can read: its handlers, a job, a letter, a workflow. Outside text is fenced as data."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from standfast.errors import StandfastError
from standfast.mcp.agent import Agent
from standfast.mcp.outside import fenced, shown_to_agents
from standfast.server import visible as reached
from standfast.server.token_view import left_out
from standfast.views import JobView
from standfast.wings.access.words import Right

Reads = Callable[[str], Awaitable[str]]


def add_resources(server: MCPServer[Any], agent: Agent) -> None:
    """Register the resources with the server."""
    sf, who = agent.sf, agent.who

    @server.resource("standfast://handlers", title="What you may call", mime_type="text/plain")
    async def handlers() -> str:
        """List every handler that may be called: its tool, its whole description, and what it declares."""
        tools = (await agent.handler_tools()).values()
        return fenced([each.described() for each in tools])

    def of_job(what: str, job: JobView) -> str:
        return _render(what, job, left_out(who.grant, job))

    @server.resource("standfast://jobs/{id}", title="A job", mime_type="text/plain")
    @_or_missing
    async def job(id: str) -> str:
        """Read a job in its present state."""
        return of_job("job", who.visible(await sf.status(id), id))

    @server.resource("standfast://letters/{id}", title="A dead letter", mime_type="text/plain")
    @_or_missing
    async def letter(id: str) -> str:
        """Read a whole letter: what the job should have done, how it failed, and what the policy says."""
        seen = who.visible(await sf.status(id), id)
        return of_job("letter", await sf.dead_letters.get(seen.id))

    @server.resource("standfast://workflows/{id}", title="A workflow", mime_type="text/plain")
    @_or_missing
    async def workflow(id: str) -> str:
        """Read a workflow: its state, and the state of each step."""
        who.check(Right.READ)
        found = sf.workflows.get(id) if who.grant is None else reached.workflow(sf, who.grant, id)
        return _render("workflow", await found, left_out(who.grant))


def _render(what: str, value: Any, without: frozenset[str]) -> str:
    shown = shown_to_agents({what: value}, without)
    return fenced({**shown[what], "_truncated": True} if "_truncated" in shown else shown[what])


def _or_missing(read: Reads) -> Reads:
    """Report a refused read as a missing resource."""

    @functools.wraps(read)
    async def found(id: str) -> str:
        try:
            return await read(id)
        except StandfastError as error:
            raise ResourceNotFoundError(error.outside) from error

    return found
