"""MCP at /mcp of the server: the token says who it is, and what it may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from standfast import Permanent, Standfast, __version__
from standfast.server.app import Server
from tests.doors.agents import said

HERE = "http://127.0.0.1"


@pytest.fixture
async def sf() -> AsyncIterator[Standfast]:
    """Give a queue with two capabilities."""
    made = Standfast(":memory:")

    @made.handler("echo")
    async def echo(job):
        return {"session": job.session, "requester": job.requester}

    @made.handler("secret")
    async def secret(_job):
        raise Permanent("no")

    async with made:
        yield made


@pytest.fixture
async def server(sf: Standfast) -> AsyncIterator[Server]:
    made = Server(sf)
    yield made
    await made.close()


@asynccontextmanager
async def connected(sf: Standfast, server: Server, name: str, role: str, **scope: Any) -> AsyncIterator[Client]:
    """Connect with a token of its own."""
    token = (await sf.tokens.create(name, person=f"{name}-person", role=role, **scope))["token"]
    headers = {"Authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app=server.app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url=HERE, headers=headers) as http,
        Client(streamable_http_client(f"{HERE}/mcp", http_client=http)) as client,
    ):
        yield client


async def test_the_session_and_the_person_are_the_tokens(sf: Standfast, server: Server) -> None:
    """Whatever is asked for."""
    async with connected(sf, server, "planner", "producer") as client:
        reply = await said(client, "run", handler="echo", params={"session": "other"})
    assert reply["result"] == {"session": "agent:planner", "requester": "planner-person"}


async def test_a_role_and_a_scope_bound_what_an_agent_may_do(sf: Standfast, server: Server) -> None:
    """A viewer calls nothing; a producer sees its own; a token for one queue reaches no other."""
    async with (
        connected(sf, server, "looker", "viewer") as viewer,
        connected(sf, server, "maker", "producer", queues=["secret"]) as maker,
        connected(sf, server, "other", "producer") as other,
    ):
        assert (await viewer.call_tool("run", {"handler": "echo"})).is_error
        assert (await maker.call_tool("run", {"handler": "echo"})).is_error
        letter = (await said(maker, "run", handler="secret"))["operation_id"]
        assert (await said(viewer, "status", id=letter))["job"]["state"] == "dead"
        for tool in ("status", "explain", "wait", "retry"):
            assert (await other.call_tool(tool, {"id": letter})).is_error
        assert (await other.call_tool("propose_replay", {"id": letter, "reason": "mine"})).is_error
        assert (await viewer.call_tool("propose_replay", {"id": letter, "reason": "x"})).is_error
        assert (await other.call_tool("list_dead_letters", {})).is_error


async def test_what_a_role_may_not_is_not_worded_as_a_mistake_in_the_call(sf: Standfast, server: Server) -> None:
    """Before, the hint was to correct the call and to make it again."""
    async with connected(sf, server, "maker", "producer") as maker:
        refused = await said(maker, "health")
    assert refused["error"] == "a token of role producer may not read; nothing was done"
    assert refused["hint"].endswith("Do not repeat the call as it is; tell a person if it is needed.")


async def test_the_server_tells_its_version(sf: Standfast, server: Server) -> None:
    """Before, it was the path of the REST API."""
    async with connected(sf, server, "maker", "producer") as maker:
        assert maker.server_info is not None
        assert maker.server_info.version == __version__


async def test_a_scope_bounds_what_an_agent_reads(sf: Standfast, server: Server) -> None:
    """A workflow that reaches into another queue is not there, and health is that of its own queues."""
    flow = sf.workflow("both")
    flow.step("a", "echo")
    flow.step("b", "secret")
    both = f"standfast://workflows/{await flow.start()}"
    mixed = sf.workflow("own")
    mixed.step("a", "echo")
    own = f"standfast://workflows/{await mixed.start()}"
    async with (
        connected(sf, server, "scoped", "viewer", queues=["echo"]) as scoped,
        connected(sf, server, "whole", "viewer") as whole,
    ):
        assert (await whole.read_resource(both)).contents
        assert (await scoped.read_resource(own)).contents
        with pytest.raises(MCPError, match="no workflow"):
            await scoped.read_resource(both)
        assert (await said(whole, "health"))["total_pending"] == 3
        assert (await said(scoped, "health"))["total_pending"] == 2


async def test_a_scope_hides_the_names_of_steps_in_other_queues(sf: Standfast, server: Server) -> None:
    flow = sf.workflow("both")
    flow.step("pay_ann", "secret")
    flow.step("tell", "echo", after=["pay_ann"])
    waiting = (await sf.workflows.get(await flow.start()))["steps"]["tell"]["job_id"]
    async with (
        connected(sf, server, "scoped", "viewer", queues=["echo"]) as scoped,
        connected(sf, server, "whole", "viewer") as whole,
    ):
        for client, named in ((whole, True), (scoped, False)):
            shown = [str(await said(client, tool, id=waiting)) for tool in ("status", "explain")]
            shown.append(str(await client.read_resource(f"standfast://jobs/{waiting}")))
            assert ["pay_ann" in each for each in shown] == [named] * 3


async def test_nobody_gets_in_without_a_token_or_from_elsewhere(server: Server) -> None:
    """Refused as every other path is."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server.app), base_url=HERE) as http:
        assert (await http.post("/mcp", json={})).status_code == 401
        assert (await http.post("/mcp", json={}, headers={"Host": "evil.example"})).status_code == 421
        assert (await http.post("/mcp", json={}, headers={"Origin": "http://evil.example"})).status_code == 403
