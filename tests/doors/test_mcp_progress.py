"""A client that asks to hear how far a call is hears it; who only looks is told as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams

from standfast import Standfast
from standfast.mcp.agent import Agent
from standfast.mcp.agent_identity import identity
from standfast.mcp.agent_server import agent_server
from standfast.mcp.progress_notifications import telling
from standfast.server.app import Server
from standfast.wings.calls import tools as calls
from tests.doors.agents import said
from tests.doors.test_mcp_http import connected as over_http
from tests.waiting import seen


@pytest.fixture(params=["memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "memory" else str(request.getfixturevalue("used_postgres_url"))


Steps = dict[float, asyncio.Event]
Heard = tuple[float, float | None, str | None]


@pytest.fixture
async def steps() -> Steps:
    """Give what the handler waits for after each step."""
    return {0.25: asyncio.Event(), 0.1: asyncio.Event(), 0.75: asyncio.Event()}


@pytest.fixture
async def sf(url: str, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Standfast]:
    monkeypatch.setattr("standfast.mcp.progress_notifications.EVERY", 0.01)
    monkeypatch.setattr("standfast.wings.progress.verbs.EVERY", 0.01)
    made = Standfast(url)

    @made.handler("steps")
    async def walk(job: Any) -> str:
        for share, go in steps.items():
            job.progress(share, f"step {share} password=hunter2")
            await go.wait()
        return "there"

    async with made:
        yield made
        for each in steps.values():  # a test that fails leaves no handler behind
            each.set()


@asynccontextmanager
async def connected(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """Connect a client by messages, as over standard input and output: a call between two objects has no token."""
    async with create_client_server_memory_streams() as (of_client, of_server):
        monkeypatch.setattr("standfast.mcp.agent_server.stdio_server", lambda _lines: nullcontext(of_server))
        serving = asyncio.ensure_future(agent_server(sf, identity("agent-1"), version="test").run_stdio_async())
        try:
            async with Client(nullcontext(of_client)) as client:
                yield client
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def hears_two_steps(client: Any, sf: Standfast, steps: Steps) -> list[Heard]:
    heard: list[Heard] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    calling = asyncio.ensure_future(client.call_tool("steps", {}, progress_callback=hear))
    await seen(lambda: len(heard) == 1)
    steps[0.25].set()
    await seen(lambda: _is_at(sf, 0.1))
    steps[0.1].set()
    await seen(lambda: len(heard) == 2)
    steps[0.75].set()
    assert (await calling).structured_content["result"] == "there"
    return heard


async def _is_at(sf: Standfast, share: float) -> bool:
    return any(job.progress is not None and job.progress["fraction"] == share for job in await sf.jobs())


async def test_a_client_that_asks_hears_how_far_its_call_is(
    sf: Standfast, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only steps forward, as the protocol has it, and without secrets."""
    async with connected(sf, monkeypatch) as client:
        heard = await hears_two_steps(client, sf, steps)
    assert heard == [(0.25, 1.0, "step 0.25 password=***"), (0.75, 1.0, "step 0.75 password=***")]


async def test_who_looks_at_a_running_job_is_told_how_far_it_is(
    sf: Standfast, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sf.worker(), connected(sf, monkeypatch) as client:
        job = (await said(client, "submit", handler="steps"))["operation_id"]
        await seen(lambda: _is_at(sf, 0.25))
        replied = await said(client, "wait", id=job, timeout=0.01)
        assert replied["progress"] == {"fraction": 0.25, "note": "step 0.25 password=***"}
        heard: list[Heard] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        waiting = asyncio.ensure_future(client.call_tool("wait", {"id": job}, progress_callback=hear))
        await seen(lambda: [each[0] for each in heard] == [0.25])
        for each in steps.values():
            each.set()
        answered = (await waiting).structured_content
        assert answered is not None
        assert (answered["status"], "progress" in answered) == ("ok", False)


async def test_a_call_over_http_ends_as_well_where_a_client_asks_to_hear_of_it(sf: Standfast, steps: Steps) -> None:
    """An answer over HTTP is one JSON document: nothing can be told before it."""
    server = Server(sf)
    async with over_http(sf, server, "planner", "producer") as client:
        heard: list[Heard] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        calling = asyncio.ensure_future(client.call_tool("steps", {}, progress_callback=hear))
        for share, go in steps.items():
            await seen(partial(_is_at, sf, share))
            await asyncio.sleep(0.05)
            go.set()
        answered = (await calling).structured_content
        assert answered is not None
        assert (answered["result"], heard) == ("there", [])
    await server.close()


async def test_a_client_that_cannot_be_told_does_not_end_the_call(sf: Standfast, steps: Steps) -> None:
    async def tell(_progress: float, _total: float, _note: str | None) -> None:
        raise BrokenPipeError

    for each in steps.values():
        each.set()
    steps[0.75].clear()
    with telling(tell):
        calling = asyncio.ensure_future(calls.call_handler(Agent(sf, identity("agent-1")), "steps/steps", {}, None))
        await seen(lambda: _is_at(sf, 0.75))
        await asyncio.sleep(0.05)
        steps[0.75].set()
        answered = (await calling).structured_content
    assert answered is not None
    assert answered["status"] == "ok"
