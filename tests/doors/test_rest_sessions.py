"""Sessions over REST: a token works in its own, and in no other, by whatever route it asks."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from standfast import Standfast
from standfast.fastapi import grant
from standfast.server.app import API, Server
from standfast.testing import drain
from tests.doors.house import House
from tests.waiting import seen

HERE = "http://127.0.0.1"
BODIES: dict[str, dict[str, Any]] = {
    "/jobs": {"queue": "echo"},
    "/run": {"handler": "echo"},
    "/submit": {"handler": "echo"},
    "/hand-over": {"handler": "echo", "error": "down"},
}


async def client(sf: Standfast, name: str, role: str, **scope: Any) -> httpx2.AsyncClient:
    made = await sf.tokens.create(name, person=f"{name}-person", role=role, **scope)
    shown = {"Authorization": f"Bearer {made['token']}"}
    transport = httpx2.ASGITransport(app=Server(sf).app)
    return httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}", headers=shown)


@pytest.mark.parametrize("route", BODIES)
async def test_work_is_done_in_the_tokens_session(furnished: Standfast, route: str) -> None:
    async with await client(furnished, "bot", "producer") as bot:
        for session in ({}, {"session": "agent:bot"}):
            said = (await bot.post(route, json={**BODIES[route], **session})).json()
            job = await furnished.status(said.get("id") or said["operation_id"])
            assert job is not None
            assert (job.session, job.requester) == ("agent:bot", "bot-person")


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize("role", ["producer", "operator", "admin"])
async def test_another_session_is_refused_whatever_the_role(furnished: Standfast, route: str, role: str) -> None:
    async with await client(furnished, "bot", role) as bot:
        for session in ("agent:victim", ""):
            refused = await bot.post(route, json={**BODIES[route], "session": session})
            assert refused.status_code == 403, refused.text
            assert "not the token's own; nothing was done" in refused.json()["detail"]
    assert not await furnished.jobs()


@pytest.mark.parametrize("role", ["viewer", "producer", "operator", "approver", "admin"])
async def test_an_inbox_is_read_by_its_own_token_alone(furnished: Standfast, role: str) -> None:
    await furnished.submit("echo", 1, session="agent:victim")
    await drain(furnished)
    async with await client(furnished, "bot", role) as bot:
        for address in ("agent:victim", "agent%3Avictim"):
            for unread in ("", "?unread=false", "?unread=true"):
                assert (await bot.get(f"/sessions/{address}/inbox{unread}")).status_code == 403
    async with await client(furnished, "victim", "producer") as victim:
        [message] = (await victim.get("/sessions/agent:victim/inbox")).json()["items"]
        assert message["kind"] == "submit_done"


async def test_a_token_made_for_sessions_works_in_these_and_no_other(furnished: Standfast) -> None:
    async with await client(furnished, "bot", "producer", sessions=["planner", "writer"]) as bot:
        found = []
        for session in ({}, {"session": "writer"}):
            receipt = (await bot.post("/jobs", json={"queue": "echo", **session})).json()
            found.append((await furnished.status(receipt["id"])).session)  # type: ignore[union-attr]
        assert found == ["planner", "writer"]
        assert (await bot.post("/jobs", json={"queue": "echo", "session": "agent:bot"})).status_code == 403
        assert (await bot.get("/sessions/writer/inbox")).status_code == 200
        assert (await bot.get("/sessions/agent:bot/inbox")).status_code == 403


async def test_a_person_of_the_host_has_no_tokens_session(furnished: Standfast) -> None:
    """One who may choose their own name must not become an agent by it."""
    await furnished.tokens.create("bot", person="bot", role="producer")
    vouched = grant("bot", "operator")
    assert vouched.session == "person:bot"
    assert not vouched.works_in("agent:bot")


async def test_a_token_without_queues_reaches_published_queues_only(furnished: Standfast) -> None:
    await furnished.enqueue("used", 1)  # by the application, which is trusted
    async with await client(furnished, "bot", "producer") as bot, await client(furnished, "op", "operator") as op:
        for queue in ("nowhere", "used"):
            refused = await bot.post("/jobs", json={"queue": queue})
            assert refused.status_code == 403, refused.text
            assert "reaches published queues only; nothing was written" in refused.json()["detail"]
        schedule = {"name": "s", "queue": "nowhere", "every": 60}
        assert (await op.post("/schedules", json=schedule)).status_code == 403
        assert (await bot.post("/jobs", json={"queue": "echo"})).status_code == 201
        furnished.queue("nowhere")
        assert (await bot.post("/jobs", json={"queue": "nowhere"})).status_code == 201
    async with await client(furnished, "scoped", "producer", queues=["later"]) as scoped:
        assert (await scoped.post("/jobs", json={"queue": "later"})).status_code == 201
        assert (await scoped.post("/jobs", json={"queue": "echo"})).status_code == 403


async def test_everybody_who_asked_for_a_coalesced_job_reads_it(furnished: Standfast) -> None:
    furnished.queue("notes", coalesce="latest")
    async with (
        await client(furnished, "ann", "producer") as ann,
        await client(furnished, "bob", "producer") as bob,
        await client(furnished, "eve", "producer") as eve,
    ):
        job = {"queue": "notes", "thread_key": "t", "payload": 1}
        first, second = [(await each.post("/jobs", json=job)).json() for each in (ann, bob)]
        assert second == {**first, "outcome": "coalesced"}
        for each in (ann, bob):
            assert [item["id"] for item in (await each.get("/jobs")).json()["items"]] == [first["id"]]
            assert (await each.get(f"/jobs/{first['id']}")).status_code == 200
        assert (await eve.get("/jobs")).json()["items"] == []
        assert (await eve.get(f"/jobs/{first['id']}")).status_code == 404


async def test_nobody_reads_what_others_brought_into_the_same_job(furnished: Standfast) -> None:
    """Whoever knows the key of a thread joins its job, and learns nothing of the payloads, keys and secrets in it."""
    furnished.queue("refused", coalesce="collect")
    async with await client(furnished, "ann", "producer") as ann, await client(furnished, "eve", "producer") as eve:
        job = {"queue": "refused", "thread_key": "t"}
        headers = {"Idempotency-Key": "key-of-ann"}
        await ann.post("/jobs", json={**job, "payload": {"note": "private"}}, headers=headers)
        found = (await eve.post("/jobs", json={**job, "payload": 1})).json()
        assert found["outcome"] == "coalesced"
        await drain(furnished)
        address = f"/jobs/{found['id']}"
        for path in (address, f"{address}/explain", f"{address}/result", "/jobs"):
            read = (await eve.get(path)).text
            assert not [word for word in ("private", "key-of-ann", "hunter2") if word in read], path
        for guess in ("priv", "key-of", "hunter"):
            assert (await eve.get("/jobs", params={"q": guess})).json()["items"] == []
        assert (await eve.get("/jobs", params={"q": found["id"]})).json()["items"]
        assert (await eve.get(address)).json()["state"] == "dead"
        for door in (
            (await by_mcp(eve, "tools/call", name="status", arguments={"id": found["id"]})),
            (await by_mcp(eve, "resources/read", uri=f"standfast://jobs/{found['id']}")),
        ):
            assert "refused" in door
            assert not [word for word in ("private", "key-of-ann", "hunter2") if word in door]


async def by_mcp(client: httpx2.AsyncClient, method: str, **params: Any) -> str:
    called = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepts = {"Accept": "application/json, text/event-stream"}
    return (await client.post(f"{HERE}/mcp", json=called, headers=accepts)).text


@pytest.fixture(params=["memory", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")


def slow(url: str) -> tuple[Standfast, asyncio.Event, asyncio.Event]:
    """Give a queue whose handler waits until it is let go."""
    sf, begun, let_go = Standfast(url), asyncio.Event(), asyncio.Event()

    @sf.handler("slow")
    async def handle(_job: Any) -> dict[str, bool]:
        begun.set()
        await let_go.wait()
        return {"done": True}

    return sf, begun, let_go


def test_a_reply_nobody_received_is_in_the_inbox(store_url: str) -> None:
    """The client went away in the middle of POST /run."""
    sf, begun, let_go = slow(store_url)
    with House(sf, working=False) as house:
        asyncio.run(_hang_up(house, begun))
        house.ask(lambda _: _set(let_go))
        [message] = house.ask(lambda sf: seen(lambda: sf.inbox.list("agent:bot", unread=False)))
        assert (message["kind"], message["result"]) == ("submit_done", {"done": True})


def test_a_reply_that_no_agent_received_is_in_the_inbox(store_url: str) -> None:
    """The client went away in the middle of a call at /mcp."""
    sf, begun, let_go = slow(store_url)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "run", "arguments": {"handler": "slow", "params": {}}}
    with House(sf, working=False) as house:
        asyncio.run(_hang_up(house, begun, "/mcp", call))
        house.ask(lambda _: _set(let_go))
        [message] = house.ask(lambda sf: seen(lambda: sf.inbox.list("agent:bot", unread=False)))
        assert (message["kind"], message["result"]) == ("submit_done", {"done": True})


def test_a_reply_is_in_the_inbox_also_where_the_server_had_stopped_waiting(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.wings.calls.routes.LONGEST_RUN", 1.5)
    sf, begun, let_go = slow(store_url)
    with House(sf, working=False) as house:
        asyncio.run(_hang_up(house, begun))
        house.ask(lambda sf: seen(lambda: _is_deferred(sf)))
        house.ask(lambda _: _set(let_go))
        [message] = house.ask(lambda sf: seen(lambda: sf.inbox.list("agent:bot", unread=False)))
        assert message["kind"] == "submit_done"


async def _is_deferred(sf: Standfast) -> bool:
    return [job.queue_reason for job in await sf.jobs()] == ["deferred_submit"]


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _hang_up(house: House, begun: asyncio.Event, path: str = f"{API}/run", call: Any = None) -> None:
    """Begin a call, and close the connection once its handler runs."""
    shown = {
        "Authorization": f"Bearer {house.token('bot', 'producer')}",
        "Accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient(base_url=house.url, headers=shown) as http:
        calling = asyncio.ensure_future(http.post(path, json=call or {"handler": "slow"}))
        await asyncio.to_thread(house.ask, lambda _: begun.wait())
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
