"""An agent that has only docs/mcp.md: it finds out what it may call, calls it, is killed, and learns what became of it.

Over standard input and output and over HTTP; once the agent is killed, once the server is, once both are.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from standfast import Standfast
from tests.doors.agent_process import connected
from tests.doors.agents import said
from tests.doors.processes import COMMAND, PACKAGES, surroundings
from tests.doors.test_rest_serve import Serving
from tests.on_disk import path, url
from tests.waiting import seen

__all__ = ["path", "url"]

pytestmark = pytest.mark.timeout(180)  # each starts several processes, one after the other
SESSION = "planner"
APPLICATION = '''
import asyncio, os
from pathlib import Path
import msgspec
from standfast import Standfast

sf = Standfast()
sf.queue("reports", lease=1, attempts=3)

class Report(msgspec.Struct):
    month: str

@sf.handler("reports", name="publish_report", input=Report)
async def publish_report(job):
    """Publish the report of a month."""
    Path(f"entered-{job.attempt}").write_text(str(os.getpid()))
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    with Path("published").open("a") as file:
        file.write(job.input.month)
    return {"month": job.input.month, "attempt": job.attempt}
'''
BEGINNING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
CALL = {"month": "2026-11", "idempotency_key": "november"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(APPLICATION)
    return tmp_path


def over_stdio(here: Path, url: str) -> dict[str, Any]:
    """Say how a client starts its server."""
    command = [*COMMAND, "mcp", "service:sf", "--session", SESSION]
    return {"command": command, "env": surroundings({"STANDFAST_URL": url}), "cwd": str(here)}


@asynccontextmanager
async def over_http(here: Path, url: str) -> AsyncIterator[tuple[dict[str, Any], Serving]]:
    """Have a server with the application; say how a client reaches it."""
    async with Standfast(url) as sf:
        made = await sf.tokens.create(f"t{os.urandom(3).hex()}", person="ann", role="producer", sessions=[SESSION])
    environment = {"PYTHONPATH": f"{PACKAGES}:{here}", "STANDFAST_URL": url}
    served = type("ServingHere", (Serving,), {"cwd": here})
    with served(url, "service:sf", **environment) as serving:
        yield {"url": f"{await asyncio.to_thread(serving.address)}/mcp", "token": made["token"]}, serving


async def find_tool(client: Client) -> str:
    """Find out what may be called, as an agent does: by what the listing says."""
    tools = (await client.list_tools()).tools
    [found] = [tool for tool in tools if "report" in (tool.description or "").lower()]
    assert found.input_schema["required"] == ["month"]
    return found.name


async def killed_in_the_middle(here: Path, place: dict[str, Any], tool: str) -> None:
    """Have an agent call the tool, and kill it once the handler is entered."""
    script = [sys.executable, "-m", "tests.doors.agent_process", json.dumps(place), tool, json.dumps(CALL)]
    root = str(Path(__file__).parents[2])
    apart: dict[str, Any] = {"stdin": DEVNULL, "stdout": DEVNULL, "env": surroundings({"PYTHONPATH": PACKAGES})}
    agent = await asyncio.create_subprocess_exec(*script, cwd=root, **apart)
    await entered(here, 1)
    agent.send_signal(signal.SIGKILL)
    await agent.wait()


async def entered(here: Path, attempt: int) -> int:
    """Wait until the handler is entered; give the process it runs in."""
    file = here / f"entered-{attempt}"
    return int(await seen(lambda: file.exists() and file.read_text(), within=60))


async def learns_what_became_of_it(client: Client, kinds: set[str]) -> dict[str, Any]:
    """Come back: the overview says to read the inbox, and that has the end; jobs and result have it too."""
    overview = await seen(lambda: unread(client), within=45)
    assert overview["jobs"] == {"completed": 1}
    assert "inbox" in overview["hint"]
    [message] = (await said(client, "inbox"))["messages"]
    assert message["kind"] in kinds
    [job] = (await said(client, "jobs"))["jobs"]
    assert (job["id"], job["status"], job["params"]) == (message["job_id"], "ok", {"month": "2026-11"})
    whole = await said(client, "result", id=job["id"])
    assert whole["result"] == message["result"]
    assert (await said(client, "inbox"))["messages"] == []
    again = await said(client, "publish_report", **CALL)
    assert (again["status"], again["operation_id"]) == ("ok", job["id"]), "the same key calls nothing twice"
    result: dict[str, Any] = whole["result"]
    return result


async def unread(client: Client) -> dict[str, Any] | None:
    overview = await said(client, "status")
    return overview if overview["unread"] else None


@pytest.mark.long_on_postgres
async def test_an_agent_that_was_killed_over_stdio_comes_back_and_knows(here: Path, url: str) -> None:
    """Its server finishes what was begun, and keeps the reply for it."""
    place = over_stdio(here, url)
    async with connected(place) as client:
        tool = await find_tool(client)
    await killed_in_the_middle(here, place, tool)
    (here / "go").touch()
    async with connected(place) as client:
        result = await learns_what_became_of_it(client, {"submit_done", "retry_success"})
    assert result["month"] == "2026-11"
    assert (here / "published").read_text() == "2026-11"


@pytest.mark.long_on_postgres
async def test_an_agent_that_was_killed_over_http_comes_back_and_knows(here: Path, url: str) -> None:
    """The connection is gone before the reply: the reply is in the inbox."""
    async with over_http(here, url) as (place, _):
        async with connected(place) as client:
            tool = await find_tool(client)
        await killed_in_the_middle(here, place, tool)
        (here / "go").touch()
        async with connected(place) as client:
            assert await learns_what_became_of_it(client, {"submit_done"}) == {"month": "2026-11", "attempt": 1}
    assert (here / "published").read_text() == "2026-11"


@pytest.mark.long_on_postgres
async def test_an_agent_whose_server_was_killed_over_stdio_comes_back_and_knows(here: Path, url: str) -> None:
    """The next server runs it again, as its handler allows, and tells the session."""
    place = over_stdio(here, url)
    with suppress(MCPError, ExceptionGroup):
        async with connected(place) as client:
            await calls_and_loses(here, client, lambda pid: os.kill(pid, signal.SIGKILL))
    (here / "go").touch()
    async with connected(place) as client:
        result = await learns_what_became_of_it(client, {"retry_success"})
    assert result == {"month": "2026-11", "attempt": 2}


@pytest.mark.long_on_postgres
async def test_an_agent_whose_server_was_killed_over_http_comes_back_and_knows(here: Path, url: str) -> None:
    """A server of the same store that starts afterwards knows the token, the session and the job."""
    async with over_http(here, url) as (place, serving):
        with suppress(MCPError, ExceptionGroup, Exception):
            async with connected(place) as client:
                await calls_and_loses(here, client, lambda _: serving.process.kill())
    (here / "go").touch()
    async with over_http(here, url) as (place, _), connected(place) as client:
        result = await learns_what_became_of_it(client, {"retry_success"})
    assert result == {"month": "2026-11", "attempt": 2}


@pytest.mark.long_on_postgres
async def test_a_call_that_outlasts_its_client_is_given_back_when_the_server_is_told_to_stop(
    here: Path, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Clients that leave send SIGTERM after two seconds. Before, a traceback followed, and the job read `running`."""
    place = over_stdio(here, url)
    async with connected(place) as client:
        calling = asyncio.ensure_future(client.call_tool(await find_tool(client), CALL))
        pid = await entered(here, 1)
        calling.cancel()
        await asyncio.wait([calling])
    await seen(lambda: not Path(f"/proc/{pid}").exists(), within=30)
    async with Standfast(url) as sf:
        [job] = await sf.jobs(session=SESSION)
        assert (job.state, job.attempts) == ("queued", 0), "no attempt is spent, and any worker may begin at once"
    assert "Traceback" not in capfd.readouterr().err
    (here / "go").touch()
    async with connected(place) as client:
        result = await learns_what_became_of_it(client, {"submit_done"})
    assert result == {"month": "2026-11", "attempt": 1}


@pytest.mark.long_on_postgres
async def test_a_server_that_is_told_to_stop_ends_although_its_client_is_still_there(here: Path, url: str) -> None:
    """Before, it waited for the client's next line, for ever."""
    serving = await asyncio.create_subprocess_exec(
        *over_stdio(here, url)["command"],
        env=over_stdio(here, url)["env"],
        cwd=here,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert serving.stdin is not None
    assert serving.stdout is not None
    try:
        serving.stdin.write(json.dumps(BEGINNING).encode() + b"\n")
        answer = json.loads(await asyncio.wait_for(serving.stdout.readline(), 30))
        assert answer["result"]["serverInfo"]["name"] == "standfast"
        serving.terminate()
        assert await asyncio.wait_for(serving.wait(), 15) == 0
    finally:
        if serving.returncode is None:
            serving.kill()


async def calls_and_loses(here: Path, client: Client, kill: Callable[[int], None]) -> None:
    """Call the tool, and lose the server under the call."""
    calling = asyncio.ensure_future(client.call_tool(await find_tool(client), CALL))
    kill(await entered(here, 1))
    await calling
