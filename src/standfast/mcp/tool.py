"""A tool as a value, and how a client is offered it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, NamedTuple

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field, ValidationError

from standfast.errors import StandfastError
from standfast.mcp.agent import Agent
from standfast.mcp.arguments import misfits
from standfast.mcp.outside import refusal

LOOKS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)

TIDIES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Id = Annotated[str, Field(description="The operation_id of a reply, or a job's id.", max_length=200)]

Call = Callable[..., Awaitable[CallToolResult]]
"""What a tool does: as an agent, with its arguments."""


class AgentTool(NamedTuple):
    """One thing that an agent can do."""

    call: Call
    annotations: ToolAnnotations


class CheckedTool(Tool):
    """A tool whose refusals are ours: the library's words about arguments are its own code's."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:  # noqa: FBT001, FBT002 - the library has it so
        """Run it, or say which argument does not fit."""
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            found = error.__cause__.errors(include_url=False)
            raise ToolError(misfits(self.name, self.parameters, found)) from error


def tools_for(agent: Agent, tools: Iterable[AgentTool]) -> list[Tool]:
    """Give the tools, each with what a client may know of it beforehand."""
    return [
        _strict(CheckedTool.from_function(_guarded(agent, call), annotations=annotations, structured_output=True))
        for call, annotations in tools
    ]


def _strict(tool: Tool) -> Tool:
    """Have arguments refused that a tool does not take: a key under another name would be no key at all."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters["additionalProperties"] = False
    return tool


def _guarded(agent: Agent, tool: Call) -> Call:
    """Have what is refused answered as the tool's own error: an agent reads what is safe and what to do next."""

    @functools.wraps(tool)
    async def called(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            return await tool(agent, *args, **kwargs)
        except StandfastError as error:
            return refusal(error)

    signature = inspect.signature(tool, eval_str=True)
    _, *parameters = signature.parameters.values()  # the agent is the connection's, never an argument
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called
