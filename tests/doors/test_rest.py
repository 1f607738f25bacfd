"""The REST door, asked in this process: what is taken, what is refused, and who may do what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from standfast import Standfast
from standfast.server.api_routes import ROUTES
from standfast.server.app import API, Server
from standfast.server.route import Route
from standfast.testing import drain
from standfast.wings.access.words import RIGHTS, Right, Role
from standfast.wings.notices import routes as notices

HERE = "http://127.0.0.1"


@pytest.fixture
def sf(furnished: Standfast) -> Standfast:
    return furnished


class Clients:
    """Clients of one server, each with a token of its own."""

    def __init__(self, sf: Standfast) -> None:
        self._sf = sf
        self._transport = httpx2.ASGITransport(app=Server(sf).app)
        self._made: list[httpx2.AsyncClient] = []

    async def of(self, role: str | None, **scope: Any) -> httpx2.AsyncClient:
        """Give a client of a role; None for one without a token."""
        headers = {}
        if role is not None:
            name = f"{role}-{len(self._made)}"
            token = await self._sf.tokens.create(name, person=scope.pop("person", name), role=role, **scope)
            headers = {"Authorization": f"Bearer {token['token']}"}
        self._made.append(httpx2.AsyncClient(transport=self._transport, base_url=f"{HERE}{API}", headers=headers))
        return self._made[-1]

    async def close(self) -> None:
        """Hang up."""
        for each in self._made:
            await each.aclose()


@pytest.fixture
async def clients(sf: Standfast) -> AsyncIterator[Clients]:
    made = Clients(sf)
    yield made
    await made.close()


def hint(answer: httpx2.Response, status: int) -> str:
    """See to it that an answer is a problem document of this status; give its hint."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["hint"])


async def test_a_job_is_taken_once_for_each_key(sf: Standfast, clients: Clients) -> None:
    """Created, then found again, then refused with another payload."""
    client = await clients.of("producer")
    keyed = {"Idempotency-Key": '"order-7"'}
    first = await client.post("/jobs", json={"queue": "echo", "payload": 1}, headers=keyed)
    again = await client.post("/jobs", json={"queue": "echo", "payload": 1}, headers=keyed)
    other = await client.post("/jobs", json={"queue": "echo", "payload": 2}, headers=keyed)
    assert (first.status_code, first.json()["outcome"]) == (201, "accepted")
    assert (again.status_code, again.json()["outcome"], again.json()["id"]) == (200, "duplicate", first.json()["id"])
    assert "new key" in hint(other, 422)
    await drain(sf)
    job = (await client.get(f"/jobs/{first.json()['id']}")).json()
    assert (job["state"], job["result"], job["requester"]) == ("completed", {"got": 1}, "producer-0")
    assert job["hint"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b'{"queue": "echo", "queue": "other"}', 400),
        (b'{"queue": "echo", "payload": NaN}', 422),
        (b'{"queue": "echo", "payload": "\\u0000"}', 422),
        (b'{"queue": "echo", "payload": "\\ud800"}', 422),
        (b'{"queue": "echo", "payload": 1e999}', 422),
        (b'{"queue": "echo", "unknown": 1}', 422),
        (b'{"queue": 7}', 422),
        (b'["queue"]', 422),
        (b"\xff\xfe", 400),
        (b"[" * 5000, 400),
        (b'{"queue": "echo", "http": {"method": "GET", "url": "http://127.0.0.1/"}}', 422),
        (b'{"queue": "echo", "at": "yesterday"}', 422),
        (b'{"queue": "echo", "payload": "' + b"x" * 300_000 + b'"}', 422),
        (b" " * (1 << 21), 413),
    ],
)
async def test_what_does_not_fit_is_refused_and_nothing_is_written(
    sf: Standfast, clients: Clients, body: bytes, status: int
) -> None:
    """With a hint, never with an error of ours."""
    client = await clients.of("producer")
    assert hint(await client.post("/jobs", content=body), status)
    assert len(await sf.jobs()) == 0


def concrete(route: Route) -> str:
    """Give an address that leads to a route."""
    return route.path.replace("{id}", "nowhere").replace("{name}", "nowhere")


@pytest.mark.parametrize("role", [None, *Role])
async def test_a_role_gets_no_further_than_its_rights(
    sf: Standfast, clients: Clients, role: Role | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every route there is, asked by everybody: 401 without a token, 403 without the right, and else neither."""
    assert sf is not None
    monkeypatch.setattr(notices, "LONGEST", 0.0)
    client = await clients.of(role)
    for route in ROUTES:
        answer = await client.request(route.method, concrete(route), content=b"{}")
        assert answer.status_code < 500, (route.path, answer.text)
        if role is None:
            assert answer.status_code == 401, route.path
        elif not {route.right, route.also} & RIGHTS[role]:
            assert answer.status_code == 403, route.path
        else:
            assert answer.status_code != 401, route.path
            assert "may not" not in answer.text, route.path


async def test_a_token_for_one_queue_sees_and_touches_no_other(sf: Standfast, clients: Clients) -> None:
    """To it there is no such job."""
    kept = await sf.enqueue("echo", 1)
    client = await clients.of("operator", queues=["refused"])
    assert hint(await client.post("/jobs", json={"queue": "echo"}), 403)
    assert hint(await client.post("/run", json={"handler": "echo"}), 403)
    assert hint(await client.get(f"/jobs/{kept.id}"), 404)
    assert hint(await client.post(f"/jobs/{kept.id}/cancel"), 404)
    assert (await client.get("/jobs")).json()["items"] == []
    assert "echo" not in (await client.get("/stats")).json()["queues"]
    assert hint(await client.post("/queues/echo/pause"), 403)


async def test_a_producer_reads_its_own_and_a_viewer_reads_no_secrets(sf: Standfast, clients: Clients) -> None:
    """Payloads are for those who work with them."""
    mine, other = await clients.of("producer"), await clients.of("producer")
    viewer, operator = await clients.of("viewer"), await clients.of("operator")
    job = (await mine.post("/jobs", json={"queue": "refused", "payload": {"api_key": "k3y"}})).json()["id"]
    await drain(sf)
    assert (await mine.get(f"/jobs/{job}")).json()["payload"] == {"api_key": "k3y"}
    assert hint(await other.get(f"/jobs/{job}"), 404)
    seen = (await viewer.get(f"/dead-letters/{job}")).text
    assert "k3y" not in seen
    assert "hunter2" not in seen
    assert (await operator.get(f"/dead-letters/{job}")).json()["payload"] == {"api_key": "k3y"}


async def test_a_replay_is_told_by_its_status(sf: Standfast, clients: Clients) -> None:
    """Accepted, forbidden, or waiting for somebody else, whose yes performs it."""
    sf.policy.load(
        "version: v1\nreplay_rules:\n"
        "  - {match: {labels: {kind: denied}}, decision: deny, why: never}\n"
        "  - {match: {labels: {kind: asked}}, decision: require_approval, approver_group: platform}\n"
        "  - {match: {}, decision: allow}\n"
    )
    operator, approver = await clients.of("operator"), await clients.of("approver", groups=["platform"])
    ids = {}
    for kind in ("allowed", "denied", "asked"):
        ids[kind] = (await operator.post("/jobs", json={"queue": "refused", "labels": {"kind": kind}})).json()["id"]
    await drain(sf)
    assert (await operator.post(f"/dead-letters/{ids['allowed']}/replay")).status_code == 202
    assert hint(await operator.post(f"/dead-letters/{ids['denied']}/replay"), 403)
    waiting = await operator.post(f"/dead-letters/{ids['asked']}/replay", json={"reason": "mended"})
    approval = waiting.json()["approval"]
    assert approval in hint(waiting, 409)
    assert hint(await operator.post(f"/approvals/{approval}/approve"), 403)
    assert (await approver.post(f"/approvals/{approval}/approve")).json()["outcome"] == "replayed"
    assert (await approver.get("/audit/verify")).json()["ok"]


async def test_letters_are_planned_and_redriven(sf: Standfast, clients: Clients) -> None:
    """The plan's token does exactly that."""
    client = await clients.of("operator")
    for number in range(3):
        await sf.enqueue("refused", number)
    await drain(sf)
    plan = (await client.post("/dead-letters/plan", json={"filter": {"queue": "refused"}})).json()
    started = await client.post("/redrives", json={"token": plan["token"], "reason": "mended", "canary": 1})
    assert started.status_code == 202, started.text
    assert (await client.post(f"/redrives/{started.json()['id']}/cancel")).status_code == 200
    assert hint(await client.post("/redrives", json={"token": "none", "reason": "x"}), 404)
    admin = await clients.of("admin")
    few = await admin.request("DELETE", "/dead-letters", json={"confirm": 1, "reason": "old"})
    assert hint(few, 422)
    assert len(await sf.dead_letters.list()) == 3


async def test_a_wrong_host_or_origin_gets_no_further(clients: Clients) -> None:
    """Whatever token it shows."""
    client = await clients.of("admin")
    assert hint(await client.get("/stats", headers={"Host": "evil.example"}), 421)
    assert hint(await client.post("/jobs", json={"queue": "a"}, headers={"Origin": "http://evil.example"}), 403)
    assert (await client.get("/stats")).headers["content-security-policy"].startswith("default-src 'none'")


async def test_the_document_names_every_route(clients: Clients) -> None:
    """It is drawn from them, and needs no token."""
    client = await clients.of(None)
    document = (await client.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    named = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    assert named == {*((route.method, f"{API}{route.path}") for route in ROUTES), ("POST", f"{API}/ingest/{{source}}")}
    assert {route.right for route in ROUTES} == set(Right) - {Right.READ_OWN, Right.READ_PAYLOADS}


async def test_a_failed_call_that_is_handed_over_twice_under_one_key_is_one_job(sf, clients):
    producer = await clients.of("producer")
    call = {"handler": "echo", "params": {"n": 1}, "error": "bridge is down"}
    first, again = [
        (await producer.post("/hand-over", json=call, headers={"Idempotency-Key": "call-1"})).json() for _ in range(2)
    ]
    assert (first["status"], again["operation_id"]) == ("queued", first["operation_id"])
    assert len([job for job in await sf.jobs() if job.idempotency_key == "call-1"]) == 1
    other = await producer.post("/hand-over", json={**call, "params": {"n": 2}}, headers={"Idempotency-Key": "call-1"})
    assert hint(other, 422).startswith("Use a new key")


async def test_a_job_for_a_handler_that_no_process_published_is_refused_with_the_nearest(sf, clients):
    @sf.handler("greetings", name="greet")
    def greet(_job):
        return None

    admin = await clients.of("admin")
    refused = await admin.post("/jobs", json={"queue": "greetings", "handler": "gret"})
    hint(refused, 404)
    assert refused.json()["nearest"] == ["greet"]
    assert (await admin.post("/jobs", json={"queue": "greetings", "handler": "greet"})).status_code == 201
    assert [job.handler for job in await sf.jobs(queue="greetings")] == ["greet"]
