"""People answer for sessions over REST and MCP, with what will be done in sight; agents never answer for themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from standfast import Effect, Standfast
from standfast.mcp.agent_identity import identity
from standfast.mcp.agent_server import agent_server
from standfast.server.app import API, Server
from standfast.testing import drain
from tests.doors.agents import said
from tests.doors.house import House
from tests.waiting import failure_of, job_of

HERE = "http://127.0.0.1"
AGENT = "agent:planner"


def furnish(url: str) -> tuple[Standfast, list[Any]]:
    """Give a store whose handler asks, and the payloads that entered it."""
    made, paid = Standfast(url), []

    @made.handler("pay", consent=True, effects=[Effect("transfer")])
    async def pay(job):
        """Transfers money."""
        paid.append(job.payload)
        return {"paid": True}

    @made.handler("wire", consent=True, risk="critical")
    async def wire(job):
        paid.append(job.payload)

    return made, paid


@pytest.fixture(params=["memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "memory" else str(request.getfixturevalue("used_postgres_url"))


@pytest.fixture
async def house(url: str) -> AsyncIterator[tuple[Standfast, list[Any]]]:
    made, paid = furnish(url)
    async with made:
        yield made, paid


async def client(sf: Standfast, person: str, role: str, **scope: Any) -> httpx2.AsyncClient:
    made = await sf.tokens.create(f"{person}-{len(await sf.tokens.list())}", person=person, role=role, **scope)
    shown = {"Authorization": f"Bearer {made['token']}"}
    transport = httpx2.ASGITransport(app=Server(sf).app)
    return httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}", headers=shown)


async def waits(sf: Standfast, payload: Any = 1, session: str = AGENT, queue: str = "pay") -> str:
    job_id = str((await sf.enqueue(queue, payload, session=session, requester="planner")).id)
    await drain(sf)
    assert (await job_of(sf, job_id)).reason == "consent_required"
    return job_id


# --- REST


async def test_an_approver_lets_exactly_the_job_run_that_was_shown(house) -> None:
    """Also where an older job of the same session waits for the same handler."""
    sf, paid = house
    older, newer = await waits(sf, "older"), await waits(sf, "newer")
    async with await client(sf, "ann", "approver") as ann:
        listed = (await ann.get("/consents")).json()
        assert [(each["job_id"], each["requester"], each["queue"]) for each in listed["asks"]] == [
            (older, "planner", "pay"),
            (newer, "planner", "pay"),
        ]
        given = await ann.post(f"/consents/{newer}/grant", json={"reason": "looks right"})
        assert (given.status_code, given.json()["mode"], given.json()["job_id"]) == (200, "once", newer)
        await drain(sf)
        assert (paid, (await job_of(sf, older)).state) == (["newer"], "held")
        denied = await ann.post(f"/consents/{older}/deny", json={"reason": "too old"})
        assert (denied.status_code, (await job_of(sf, older)).reason) == (200, "consent_denied")
        assert (await ann.post(f"/consents/{older}/grant", json={})).status_code == 409
    third = await waits(sf, "third")  # a no to one job is no no to the session
    entries = [(each["kind"], each["by"], each.get("job")) for each in await sf.audit.entries() if each["by"] == "ann"]
    assert entries == [("grant", "ann", newer), ("deny", "ann", older)]
    assert (await job_of(sf, third)).state == "held"


async def test_a_session_is_granted_a_handler_for_a_time_and_it_is_taken_back(house) -> None:
    sf, paid = house
    await waits(sf, 1)
    async with await client(sf, "ann", "approver", queues=["pay"]) as ann:
        given = await ann.post(
            "/consents", json={"session": AGENT, "handler": "pay", "mode": "timed", "seconds": "10m"}
        )
        assert given.status_code == 201, given.text
        await drain(sf)
        assert len((await ann.get("/consents", params={"session": AGENT})).json()["items"]) == 1
        taken = await ann.post("/consents/revoke", json={"session": AGENT, "handler": "pay"})
        assert taken.json() == {"revoked": 1}
        await waits(sf, 2)
        wide = await ann.post("/consents", json={"session": AGENT, "handler": "*", "mode": "deny"})
        assert wide.status_code == 403  # the token reaches one queue
        assert (await ann.post("/consents", json={"session": AGENT, "handler": "wire"})).status_code == 403
    assert paid == [1]


async def test_a_payload_that_was_amended_since_it_was_shown_is_not_allowed(house) -> None:
    sf, _ = house
    job_id = await waits(sf)
    async with await client(sf, "ann", "approver") as ann:
        stale = await ann.post(f"/consents/{job_id}/grant", json={"payload_sha256": "0" * 64})
        assert (stale.status_code, "not the one that was shown" in stale.text) == (409, True)
    assert (await job_of(sf, job_id)).state == "held"


@pytest.mark.parametrize(
    ("role", "scope"),
    [
        ("producer", {}),
        ("operator", {}),
        ("viewer", {}),
        ("approver", {"sessions": [AGENT]}),
        ("admin", {"sessions": ["x"]}),
    ],
)
async def test_neither_other_roles_nor_agents_answer(house, role: str, scope: dict[str, Any]) -> None:
    sf, _ = house
    job_id = await waits(sf)
    async with await client(sf, "bot", role, **scope) as bot:
        answers = [
            await bot.post(f"/consents/{job_id}/grant", json={}),
            await bot.post(f"/consents/{job_id}/deny", json={}),
            await bot.post("/consents", json={"session": AGENT, "handler": "pay"}),
            await bot.post("/consents/revoke", json={"session": AGENT}),
        ]
    assert [each.status_code for each in answers] == [403] * 4
    assert (await job_of(sf, job_id)).state == "held"


async def test_an_admins_token_does_not_consent_to_what_it_asked_for_itself(house) -> None:
    sf, _ = house
    made = await sf.tokens.create("root", person="root", role="admin")
    transport = httpx2.ASGITransport(app=Server(sf).app)
    shown = {"Authorization": f"Bearer {made['token']}"}
    async with httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}", headers=shown) as root:
        job_id = (await root.post("/jobs", json={"queue": "pay", "payload": 1})).json()["id"]
        await drain(sf)
        refused = await root.post(f"/consents/{job_id}/grant", json={})
        assert (refused.status_code, "works in that session" in refused.text) == (403, True)


# --- replaying what waits


async def test_replaying_a_job_that_waits_for_consent_asks_for_it_at_every_door(house) -> None:
    sf, paid = house
    job_id = await waits(sf)
    async with (
        await client(sf, "olga", "operator") as rest,
        Client(agent_server(sf, identity(AGENT), version="test")) as mcp,
    ):
        retried = (await rest.post(f"/jobs/{job_id}/retry")).json()
        assert (retried["status"], retried["reason_code"]) == ("held", "consent_required")
        assert "waits until a person who may approve grants pay/pay" in retried["hint"]
        assert "standfast consent grant" not in retried["hint"], "over HTTP it is not known which store a shell has"
        replayed = await rest.post(f"/dead-letters/{job_id}/replay", json={"reason": "x"})
        assert (replayed.status_code, replayed.json()["outcome"]) == (409, "consent_required")
        assert f"/consents/{job_id}/grant" in replayed.json()["hint"]
        assert (await said(mcp, "retry", id=job_id))["reason_code"] == "consent_required"
        assert (await said(mcp, "propose_replay", id=job_id, reason="x"))["outcome"] == "consent_required"
        plan = (await rest.post("/dead-letters/plan", json={"filter": {}})).json()
        assert (plan["letters"], plan["would_run"], plan["need_consent"]) == (0, 0, 1)
    assert (await sf.dead_letters.replay(job_id, by="olga"))["outcome"] == "consent_required"
    found = await job_of(sf, job_id)
    assert (found.state, found.replays, paid) == ("held", 0, [])


async def test_once_its_handler_asks_no_more_what_waited_can_be_replayed(url: str, tmp_path: Path) -> None:
    url = str(tmp_path / "queue.db") if url == ":memory:" else url
    sf, _ = furnish(url)
    async with sf:
        job_id = await waits(sf)
    changed = Standfast(url)
    changed.handler("pay")(lambda job: job.payload)
    async with changed:
        assert (await changed.dead_letters.replay(job_id, by="olga"))["outcome"] == "replayed"
        await drain(changed)
        assert (await job_of(changed, job_id)).state == "completed"


# --- MCP elicitation


class User:
    """The user of an MCP client: says what it is told to say, and remembers what it was shown."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers = list(answers)
        self.shown: list[str] = []

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        self.shown.append(params.message)
        return self.answers.pop(0)


YES = ElicitResult(action="accept", content={"allow": True})
NO = ElicitResult(action="accept", content={"allow": False})
AWAY = ElicitResult(action="cancel")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_clients_user_is_asked_and_a_yes_is_for_this_job_alone(house, mode: Any) -> None:
    sf, paid = house
    user = User(YES, AWAY)
    server = agent_server(sf, identity(AGENT), version="test")
    async with sf.worker(), Client(server, elicitation_callback=cast("Any", user), mode=mode) as agent:
        done = await said(agent, "run", handler="pay", params={"to": "ann", "password": "hunter2222"})
        assert (done["status"], done["result"]) == ("ok", {"paid": True})
        again = await said(agent, "run", handler="pay", params={"to": "bob"})
    assert (again["status"], again["reason_code"]) == ("held", "consent_required")
    assert [each["to"] for each in paid] == ["ann"]
    assert "pay/pay" in user.shown[0]
    assert "Transfers money." in user.shown[0]
    assert "transfer" in user.shown[0]
    assert "hunter2222" not in user.shown[0]
    [granted] = [each for each in await sf.audit.entries() if each["kind"] == "grant"]
    assert "the user of" in granted["by"]
    assert granted["job"] == done["operation_id"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("answer", [NO, ElicitResult(action="decline")])
async def test_a_no_of_the_clients_user_ends_the_job(house, mode: Any, answer: ElicitResult) -> None:
    sf, paid = house
    server = agent_server(sf, identity(AGENT), version="test")
    async with sf.worker(), Client(server, elicitation_callback=cast("Any", User(answer)), mode=mode) as agent:
        ended = await said(agent, "run", handler="pay", params={})
    assert (ended["status"], ended["reason_code"]) == ("failed", "consent_denied")
    assert failure_of(await job_of(sf, ended["operation_id"])).landed == "no"
    assert not paid


async def test_a_critical_handler_is_not_answered_through_the_agents_own_connection(house) -> None:
    sf, _ = house
    user = User(YES)
    server = agent_server(sf, identity(AGENT), version="test")
    async with sf.worker(), Client(server, elicitation_callback=cast("Any", user)) as agent:
        held = await said(agent, "run", handler="wire", params={})
    assert (held["status"], user.shown) == ("held", [])
    assert "in the dashboard" in held["hint"]


async def test_a_client_that_cannot_ask_is_told_who_can(house) -> None:
    sf, _ = house
    async with sf.worker(), Client(agent_server(sf, identity(AGENT), version="test")) as agent:
        held = await said(agent, "run", handler="pay", params={})
    assert (held["status"], held["reason_code"]) == ("held", "consent_required")
    assert "a person who may approve consents, in the dashboard or at the command line" in held["hint"]


async def test_over_http_the_question_comes_as_the_result_and_is_answered_by_calling_again(url: str) -> None:
    sf, paid = furnish(url)
    user = User(YES)
    with House(sf) as house:
        made = house.ask(lambda sf: sf.tokens.create("planner", person="planner", role="producer"))
        shown = httpx2.AsyncClient(headers={"Authorization": f"Bearer {made['token']}"}, timeout=30)
        transport = streamable_http_client(f"{house.url}/mcp", http_client=shown)
        async with shown, Client(transport, elicitation_callback=cast("Any", user)) as agent:
            done = await said(agent, "run", handler="pay", params={"to": "ann"})
    assert (done["status"], paid, len(user.shown)) == ("ok", [{"to": "ann"}], 1)
