"""An agent in a process of its own, to be killed in the middle of a call: `python -m tests.doors.agent_process`.

It is given where its server is as JSON: `{"url", "token"}` for HTTP, `{"command", "env", "cwd"}` for standard input and
output; then the tool, and its arguments as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connected(place: dict[str, Any], **options: Any) -> AsyncIterator[Client]:
    """Connect the official client over either transport."""
    async with AsyncExitStack() as stack:
        if "url" in place:
            headers = {"Authorization": f"Bearer {place['token']}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            transport: Any = streamable_http_client(place["url"], http_client=http)
        else:
            first, *rest = place["command"]
            server = StdioServerParameters(command=first, args=rest, env=place["env"], cwd=place["cwd"])
            transport = stdio_client(server)
        yield await stack.enter_async_context(Client(transport, **options))


async def call(place: dict[str, Any], tool: str, arguments: dict[str, Any]) -> None:
    """Call a tool and say what came of it."""
    async with connected(place) as client:
        answer = await client.call_tool(tool, arguments)
        print(json.dumps(answer.structured_content), flush=True)  # noqa: T201 - it talks to the test


if __name__ == "__main__":
    asyncio.run(call(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
