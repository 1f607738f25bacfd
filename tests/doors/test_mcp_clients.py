"""FastMCP's client and its tasks client, over standard input and output and over HTTP; servers are processes."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task

from tests.doors.test_mcp_killed import APPLICATION, entered, over_http, over_stdio
from tests.on_disk import path, url
from tests.waiting import seen

__all__ = ["path", "url"]

pytestmark = [pytest.mark.timeout(180), pytest.mark.long_on_postgres]
MORE = '''
@sf.handler("ledger")
def post(job):
    """Post a line to the ledger."""
    if not job.payload.get("amount"):
        raise ValueError("no amount")
    return {"posted": job.payload["amount"]}
'''


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(APPLICATION + MORE)
    return tmp_path


@asynccontextmanager
async def connected(here: Path, url: str, over: str) -> AsyncIterator[Any]:
    """Connect FastMCP's client over one of the transports."""
    if over == "stdio":
        place = over_stdio(here, url)
        first, *rest = place["command"]
        transport = StdioTransport(first, rest, env=place["env"], cwd=place["cwd"], keep_alive=False)
        async with Client(transport) as client:
            yield client
    else:
        async with (
            over_http(here, url) as (place, _),
            Client(StreamableHttpTransport(place["url"], auth=place["token"])) as client,
        ):
            yield client


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_fastmcps_client_finds_and_calls_what_there_is(here: Path, url: str, over: str) -> None:
    """A result is read, a refusal is raised with our words, and a task that takes long is waited for by itself."""
    async with connected(here, url, over) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["ledger"].description == "Post a line to the ledger."
        done = await client.call_tool("ledger", {"amount": 7})
        assert done.structured_content["result"] == {"posted": 7}
        with pytest.raises(ToolError, match="do not fit publish_report"):
            await client.call_tool("publish_report", {})
        task = await call_tool_task(client, "publish_report", {"month": "2026-11"})
        await entered(here, 1)
        assert (await task.status()).status == "working"
        (here / "go").touch()
        result = await task.result()
        assert (result.structured_content or {})["result"] == {"month": "2026-11", "attempt": 1}
        jobs = (await client.call_tool("jobs", {})).structured_content["jobs"]
        assert [(each["handler"], each["status"]) for each in jobs] == [
            ("reports/publish_report", "ok"),
            ("ledger/ledger", "ok"),
        ]


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_task_of_fastmcps_client_outlives_its_killed_server(here: Path, url: str, over: str) -> None:
    """The client that comes back finds it by jobs and the inbox."""
    with suppress(Exception):
        async with connected(here, url, over) as client:
            await call_tool_task(client, "publish_report", {"month": "2026-11"})
            os.kill(await entered(here, 1), signal.SIGKILL)
            await client.list_tools()
    (here / "go").touch()
    async with connected(here, url, over) as client:

        async def told() -> Any:
            return (await client.call_tool("inbox", {})).structured_content["messages"]

        [message] = await seen(told, within=60)
        assert (message["kind"], message["result"]["attempt"]) == ("submit_done", 2)
        [job] = (await client.call_tool("jobs", {"state": "completed"})).structured_content["jobs"]
        assert job["id"] == message["job_id"]
