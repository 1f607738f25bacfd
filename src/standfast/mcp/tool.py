"""A tool as a value, and how it is offered to a client."""

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
from standfast.wings.access.words import Right

# Omitted hints have the protocol's defaults: not read-only, not idempotent, open to the world.
LOOKS = ToolAnnotations(read_only_hint=True)

ACTS = ToolAnnotations(destructive_hint=True)

STOPS = ToolAnnotations(destructive_hint=True, idempotent_hint=True)

TIDIES = ToolAnnotations(destructive_hint=False, idempotent_hint=True)

LONGEST_JOB_ID = 200
Id = Annotated[str, Field(max_length=LONGEST_JOB_ID)]
"""The operation_id of a reply, or a job's id. No other id of a tool has this bound, so it marks job ids."""

TWO_IDS = (
    "the arguments do not fit {tool}, and nothing was done: id and operation_id name different jobs. Give one of the "
    "two."
)

Call = Callable[..., Awaitable[CallToolResult]]
"""A tool's function: it takes the agent and the arguments."""


class AgentTool(NamedTuple):
    """One thing that an agent can do."""

    call: Call
    annotations: ToolAnnotations
    rights: tuple[Right, ...] = ()
    """A token needs one of these rights; without any of them, it is not offered the tool."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.__name__


class CheckedTool(Tool):
    """A tool with our own wording for bad arguments: the library's describes its own code."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:  # noqa: FBT001, FBT002 - the library's signature
        """Run it, or say which argument does not fit."""
        try:
            return await super().run(self._with_id(arguments), context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            found = error.__cause__.errors(include_url=False)
            raise ToolError(misfits(self.name, self.parameters, found)) from error

    def _with_id(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Accept `operation_id` for `id` if a job is named: replies use that name."""
        about = self.parameters.get("properties", {}).get("id", {})
        bounds = {each.get("maxLength") for each in (about, *about.get("anyOf", ()))}
        if "operation_id" not in arguments or LONGEST_JOB_ID not in bounds:
            return arguments
        if arguments.get("id", arguments["operation_id"]) != arguments["operation_id"]:
            raise ToolError(TWO_IDS.format(tool=self.name))
        return {"id" if name == "operation_id" else name: value for name, value in arguments.items()}


def tools_for(agent: Agent, tools: Iterable[AgentTool]) -> list[Tool]:
    """Return the tools, each with the annotations that clients see beforehand."""
    return [
        _strict(CheckedTool.from_function(_guarded(agent, each), annotations=each.annotations, structured_output=False))
        for each in tools
    ]


def _strict(tool: Tool) -> Tool:
    """Refuse arguments that a tool does not take: a misspelt key would be no key at all."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    return tool


def _guarded(agent: Agent, offered: AgentTool) -> Call:
    """Turn refusals into errors of the tool itself: an agent reads what is safe and what to do next."""
    tool = offered.call

    @functools.wraps(tool)
    async def called(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            agent.who.check(*offered.rights)
            return await tool(agent, *args, **kwargs)
        except StandfastError as error:
            return refusal(error)

    signature = inspect.signature(tool, eval_str=True)
    _, *parameters = signature.parameters.values()  # the agent comes from the connection, never from an argument
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called
