"""An agent that asks for what may be done twice files an approval, by whichever door; and nobody answers for others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from standfast import Permanent, Standfast, Uncertain
from standfast.mcp.agent_identity import identity
from standfast.mcp.agent_server import agent_server
from standfast.server.app import API, Server
from standfast.testing import drain
from tests.doors.agents import said

HERE = "http://127.0.0.1"
AGENT = "agent:planner"


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[Standfast]:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = Standfast(url)
    made.handler("echo")(lambda job: job.payload)
    made.queue("unsure", attempts=1)

    @made.handler("manual", replay="manual")
    async def manual(_job: Any) -> None:
        raise Permanent("no")

    @made.handler("unsure")
    async def unsure(_job: Any) -> None:
        raise Uncertain("who knows")

    async with made:
        yield made


async def dead(sf: Standfast, queue: str, session: str = AGENT) -> str:
    job = str((await sf.enqueue(queue, 1, session=session, requester="planner")).id)
    await drain(sf)
    return job


async def client(sf: Standfast, person: str, role: str, **scope: Any) -> httpx2.AsyncClient:
    made = await sf.tokens.create(f"{person}-{len(await sf.tokens.list())}", person=person, role=role, **scope)
    shown = {"Authorization": f"Bearer {made['token']}"}
    transport = httpx2.ASGITransport(app=Server(sf).app)
    return httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}", headers=shown)


@pytest.mark.parametrize("queue", ["manual", "unsure"])
async def test_an_agents_question_waits_for_a_person_at_every_door(sf: Standfast, queue: str) -> None:
    letter = await dead(sf, queue)
    async with (
        await client(sf, "planner", "operator", sessions=[AGENT]) as rest,
        Client(agent_server(sf, identity(AGENT), version="test")) as mcp,
    ):
        answers = [
            (await rest.post(f"/jobs/{letter}/retry")).json()["approval"],
            (await rest.post(f"/dead-letters/{letter}/replay", json={"reason": "x"})).json()["approval"],
            (await said(mcp, "retry", id=letter))["approval"],
            (await said(mcp, "propose_replay", id=letter, reason="x"))["approval"],
            (await sf.retry(letter, session=AGENT))["approval"],
        ]
        [approval] = await sf.approvals.list()
        assert answers == [approval["id"]] * 5
        assert (await sf.status(letter)).state == "held"  # type: ignore[union-attr]
        plan = (await rest.post("/dead-letters/plan", json={"filter": {"queue": queue}})).json()
        assert (plan["need_approval"], plan["would_run"]) == (1, 0)


async def test_a_person_at_the_same_doors_is_asked_nothing(sf: Standfast) -> None:
    letter = await dead(sf, "manual")
    async with await client(sf, "olga", "operator") as rest:
        assert (await rest.post(f"/dead-letters/{letter}/replay", json={})).status_code == 202


async def test_the_asker_approves_with_no_token_made_for_the_occasion(sf: Standfast) -> None:
    """An admin who asked makes a token for somebody else, or one that makes another, and shows that."""
    letter = await dead(sf, "manual")
    approval = (await sf.dead_letters.replay(letter, by="ann", session=AGENT))["approval"]
    async with await client(sf, "ann", "admin") as ann:
        first = (await ann.post("/tokens", json={"name": "b1", "person": "bea", "role": "admin"})).json()["token"]
        puppet = {"Authorization": f"Bearer {first}"}
        made = await ann.post("/tokens", json={"name": "b2", "person": "cleo", "role": "approver"}, headers=puppet)
        for shown in (first, made.json()["token"]):
            refused = await ann.post(f"/approvals/{approval}/approve", headers={"Authorization": f"Bearer {shown}"})
            assert (refused.status_code, refused.json()["title"]) == (403, "approval refused")
    async with await client(sf, "dora", "approver") as dora:  # made by the operating-system user
        assert (await dora.post(f"/approvals/{approval}/approve")).json()["outcome"] == "replayed"


async def test_an_agent_reads_and_touches_nothing_of_another_session(sf: Standfast) -> None:
    """By every tool and resource that takes a name."""
    victim = await dead(sf, "unsure", session="agent:victim")
    await sf.submit("echo", 1, session="agent:victim")
    await drain(sf)
    told = await sf.inbox.list("agent:victim", unread=False)
    made = await sf.tokens.create("eve", person="eve", role="producer")
    shown = {"Authorization": f"Bearer {made['token']}"}
    transport = httpx2.ASGITransport(app=Server(sf).app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url=HERE, headers=shown) as http,
        Client(streamable_http_client(f"{HERE}/mcp", http_client=http)) as eve,
    ):
        assert (await said(eve, "inbox", unread=False))["messages"] == []
        for tool in ("status", "wait", "retry", "explain"):
            assert (await eve.call_tool(tool, {"id": victim})).is_error
        assert (await eve.call_tool("propose_replay", {"id": victim, "reason": "x"})).is_error
        for message in told:
            assert (await eve.call_tool("ack", {"id": message["id"]})).is_error
        for kind in ("jobs", "letters"):
            with pytest.raises(MCPError):
                await eve.read_resource(f"standfast://{kind}/{victim}")
        await said(eve, "submit", handler="echo", params={"session": "agent:victim", "labels": {"session": "x"}})
    [job] = await sf.jobs(session="agent:eve")
    assert job.requester == "eve"
    assert len(await sf.inbox.list("agent:victim", unread=False)) == len(told)


async def test_an_agent_of_several_sessions_works_in_the_first_and_owns_them_all(sf: Standfast) -> None:
    second = await dead(sf, "manual", session="second")
    made = await sf.tokens.create("bot", person="bot", role="producer", sessions=["first", "second"])
    shown = {"Authorization": f"Bearer {made['token']}"}
    transport = httpx2.ASGITransport(app=Server(sf).app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url=HERE, headers=shown) as http,
        Client(streamable_http_client(f"{HERE}/mcp", http_client=http)) as bot,
    ):
        await said(bot, "run", handler="echo", params={})
        assert [job.session for job in await sf.jobs(queue="echo")] == ["first"]
        assert (await said(bot, "retry", id=second))["reason_code"] == "approval_required"


@pytest.mark.parametrize("role", ["approver", "admin"])
async def test_an_agent_approves_nothing_whatever_its_role(sf: Standfast, role: str) -> None:
    """A token made for sessions is an agent's, at REST too."""
    await sf.dead_letters.replay(letter := await dead(sf, "manual"), by="planner", session=AGENT)
    asked = await sf.approvals.of(letter)
    async with await client(sf, "other", role, sessions=["agent:other"]) as agent, await client(sf, "bea", role) as bea:
        refused = await agent.post(f"/approvals/{asked}/approve")
        assert refused.status_code == 403
        assert refused.json()["detail"].endswith("agents approve nothing")
        assert (await bea.post(f"/approvals/{asked}/approve")).status_code == 200


@pytest.mark.parametrize("role", ["approver", "admin"])
async def test_an_agent_makes_no_token_to_approve_with(sf: Standfast, role: str) -> None:
    """A token for a person that an agent made would say yes in that person's name."""
    async with await client(sf, "robot", "admin", sessions=["robot"]) as agent, await client(sf, "ann", "admin") as ann:
        wanted = {"name": "bob", "person": "bob", "role": role}
        refused = await agent.post("/tokens", json=wanted)
        assert (refused.status_code, "agents make no tokens" in refused.json()["detail"]) == (403, True)
        assert (await ann.post("/tokens", json=wanted)).status_code == 201


async def test_an_agent_resumes_no_redrive_that_a_person_planned(sf: Standfast) -> None:
    """The rest of it may hold letters that an agent would have to ask for."""
    await dead(sf, "manual")
    async with (
        await client(sf, "robot", "operator", sessions=["robot"]) as agent,
        await client(sf, "ann", "admin") as ann,
    ):
        plan = (await ann.post("/dead-letters/plan", json={})).json()["token"]
        assert (await ann.post("/redrives", json={"token": plan, "reason": "why", "rate": "1/h"})).status_code == 202
        assert (await ann.post(f"/redrives/{plan}/pause")).json()["state"] == "paused"
        refused = await agent.post(f"/redrives/{plan}/resume")
        assert (refused.status_code, "planned for a person" in refused.json()["detail"]) == (403, True)
        assert (await agent.get(f"/redrives/{plan}")).json()["state"] == "paused"
        assert (await ann.post(f"/redrives/{plan}/resume")).json()["state"] == "running"
        assert (await agent.post(f"/redrives/{plan}/pause")).json()["state"] == "paused", "to stop one needs no person"
