"""`standfast mcp` as a client starts it: a process of its own, spoken to over its standard input and output."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from standfast import Standfast
from tests.doors.agents import KnowsTasks, ask, said, task
from tests.doors.processes import COMMAND, surroundings
from tests.on_disk import path, url
from tests.waiting import seen

__all__ = ["path", "url"]

APPLICATION = """
import asyncio, os
from pathlib import Path
from standfast import Standfast

sf = Standfast()
sf.queue("slow", lease=1, attempts=3)

@sf.handler("echo")
async def echo(job):
    print("handlers may print")
    return {"session": job.session}

@sf.handler("slow")
async def slow(job):
    Path(f"entered-{job.attempt}").write_text(str(os.getpid()))
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return {"attempt": job.attempt}
"""


@asynccontextmanager
async def served(here: Path, url: str, session: str = "agent-7", **environment: str) -> AsyncIterator[Client]:
    """Have a client start the server."""
    line = [*COMMAND[1:], "mcp", "service:sf", "--session", session]
    given = surroundings({"STANDFAST_URL": url, **environment})
    server = StdioServerParameters(command=COMMAND[0], args=line, env=given, cwd=here)
    async with Client(stdio_client(server), extensions=[KnowsTasks()]) as client:
        yield client


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(APPLICATION)
    return tmp_path


async def written(path: Path) -> str:
    """Wait for a file with something in it."""
    return str(await seen(lambda: path.exists() and path.read_text(), within=60))


@pytest.mark.long_on_postgres
async def test_a_client_starts_it_with_one_command(here: Path, url: str) -> None:
    """What handlers print does not get between the two."""
    async with served(here, url) as client:
        reply = await said(client, "run", handler="echo")
        assert reply["result"] == {"session": "agent-7"}
        assert (await said(client, "health"))["total_dead_letter"] == 0


@pytest.mark.long
async def test_a_task_outlives_the_server_that_was_killed_under_it(here: Path, url: str) -> None:
    """The job lapses, the next server's worker runs it again, and the same task has its result."""
    with suppress(MCPError, ExceptionGroup):
        async with served(here, url) as client:
            made = await task(client, "run", handler="slow")
            os.kill(int(await written(here / "entered-1")), signal.SIGKILL)
            await ask(client, "tasks/get", made.task_id)
    async with served(here, url) as client:
        await written(here / "entered-2")
        assert (await ask(client, "tasks/get", made.task_id)).status == "working"
        (here / "go").touch()
        async with Standfast(url) as sf:
            await sf.wait(made.task_id, 30)
        told = await ask(client, "tasks/get", made.task_id)
        assert told.result is not None
        assert told.result["structuredContent"]["result"] == {"attempt": 2}
        [message] = (await said(client, "inbox"))["messages"]
        assert (message["kind"], message["job_id"]) == ("submit_done", made.task_id), "a task is a call told as running"
