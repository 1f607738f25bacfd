"""An agent as the official MCP client plays it: tools called, tasks followed."""

from __future__ import annotations

from typing import Any, Literal

from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from standfast.mcp.tasks import IDENTIFIER


class Created(Result):
    """A task, as a server hands it out instead of a result."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    result_type: Literal["task"]
    task_id: str
    status: str


class Meant(RequestParams):
    """Which task."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    task_id: str


class Told(Result):
    """What is answered about a task."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    task_id: str | None = None
    status: str | None = None
    result: dict[str, Any] | None = None


class KnowsTasks(ClientExtension):
    """A client that knows tasks; what it does with one is the test's business."""

    identifier = IDENTIFIER

    def claims(self) -> list[ResultClaim[Any]]:
        """Take tasks for results."""
        return [ResultClaim(result_type="task", model=Created, resolve=self._never)]

    async def _never(self, _: Created, __: ClaimContext) -> CallToolResult:
        raise AssertionError("the test follows the task itself")


async def said(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; give its structured answer."""
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer.structured_content, dict), answer.content
    return answer.structured_content


async def text(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool; give what a model reads."""
    answer = await client.call_tool(tool, arguments)
    return str(getattr(answer.content[0], "text", ""))


async def task(client: Client, tool: str, **arguments: Any) -> Created:
    """Call a tool that takes long; give the task."""
    made = await client.session.call_tool(tool, arguments, allow_claimed=True)
    assert isinstance(made, Created), made
    return made


async def ask(client: Client, method: str, task_id: str) -> Told:
    """Send one of the methods about tasks."""
    request: Request[Meant, str] = Request(method=method, params=Meant(task_id=task_id))
    return await client.session.send_request(request, Told)
