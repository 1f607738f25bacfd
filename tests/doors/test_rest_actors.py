"""Who may act, and who acted: every address the server has, generated from its router, asked by many."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest
from starlette.routing import Route as Path

from standfast import Standfast
from standfast.dashboard.sitemap import ACTIONS, PAGES
from standfast.server.api_routes import ROUTES
from standfast.server.app import API, Server
from standfast.server.auth import CSRF_FIELD
from tests.doors.browsing import sign_in
from tests.doors.deeds import Deed, declare, made_ready

HERE = "http://127.0.0.1"
OPEN = {f"{API}/openapi.json", f"{API}/ingest/{{source}}", "/healthz", "/readyz", "/static/{name}"}
"""What needs no token: it tells nothing, or is signed."""
SIGNING = {"/sign-in", "/sign-out"}
BESIDE = {"/mcp", "/live/series", "/jobs/many", "/metrics", "/live"}
"""What is beside the API and the pages, and has a test here or of its own of who may use it."""
AUDIT, JOB, SCHEDULE, LOG = "audit", "job", "schedule", "log"
RECORDED = {
    "/jobs": JOB,
    "/jobs:bulk": JOB,
    "/run": JOB,
    "/submit": JOB,
    "/hand-over": JOB,
    "/jobs/{id}/cancel": JOB,
    "/workflows/{id}/cancel": JOB,
    "/schedules": SCHEDULE,
    "/jobs/{id}/retry": LOG,
    "/dead-letters/plan": LOG,
    "/queues/{name}/pause": LOG,
    "/queues/{name}/resume": LOG,
    "/breakers/try": LOG,
    "/schedules/{name}/pause": LOG,
    "/schedules/{name}/resume": LOG,
    "/schedules/{name}": LOG,
    "/sessions/{id}/inbox/{message}/ack": None,
    "/policy/check": None,
}
"""Where it stands who did something: in the chain of decisions, unless this says where else. Trying is no deed."""


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[Standfast]:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = Standfast(url)
    declare(made)
    async with made:
        yield made


def paths(server: Server) -> list[Path]:
    """Give every address there is, from the router inside every layer."""
    inside: Any = server.app
    while not hasattr(inside, "routes"):
        inside = inside._app  # noqa: SLF001 - each layer knows only the next
    return list(inside.routes)


def plain(path: str) -> str:
    """Give a path without what its parts may hold."""
    return path.replace(":path}", "}").replace(":chosen}", "}")


def concrete(path: str) -> str:
    """Give an address that leads to a path."""
    return plain(path).replace("{name}", "echo").replace("{id}", "x").replace("{source}", "github")


def client(server: Server, **how: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=server.app), base_url=HERE, **how)


async def bearer(sf: Standfast, person: str, role: str, **scope: Any) -> dict[str, str]:
    name = f"key-{len(await sf.tokens.list())}"  # tells nothing of whose it is
    made = await sf.tokens.create(name, person=person, role=role, **scope)
    return {"Authorization": f"Bearer {made['token']}"}


async def state(sf: Standfast) -> bytes:
    """Give everything that somebody could have changed."""
    jobs = [(job.id, job.view, job.generation, job.triage) for job in await sf.jobs(limit=500)]
    queues = {name: each["paused"] for name, each in (await sf.queues.describe()).items()}
    schedules = [(each["name"], each["paused"]) for each in await sf.schedules.list()]
    tokens = [(each["name"], each["role"]) for each in await sf.tokens.list()]
    rest = (tokens, await sf.audit.last(500), [each["state"] for each in await sf.approvals.list(None)])
    return msgspec.json.encode((jobs, queues, schedules, *rest))


async def test_every_address_is_known_here(sf: Standfast) -> None:
    """So that a new one is asked by those who may not use it, too."""
    api = {f"{API}{each.path}" for each in ROUTES}
    known = {plain(path) for path in api | {each.path for each in ACTIONS} | {each.path for each in PAGES}}
    found = {plain(each.path) for each in paths(Server(sf))}
    assert found - OPEN - SIGNING - BESIDE == known
    acting = {(each.method, each.path) for each in ROUTES if each.method != "GET"}
    deeds = [(each.method, each.route) for each in await made_ready(sf)]
    assert (set(deeds), len(deeds)) == (acting, len(acting))


async def test_a_viewer_views(sf: Standfast) -> None:
    """With requests that would succeed, by the API, by forms and by agents' tools: nothing is changed."""
    deeds = await made_ready(sf)
    server = Server(sf)
    token = (await sf.tokens.create("look", person="vera", role="viewer"))["token"]
    before = await state(sf)
    async with client(server, headers={"Authorization": f"Bearer {token}"}) as program:
        for deed in deeds:
            answer = await asked(program, deed)
            expected = 200 if deed.route == "/policy/check" else 403
            assert answer.status_code == expected, (deed, answer.text)
    async with client(server) as browser:
        known = await sign_in(browser, token)
        for address, fields in [*forms(deeds), ("/jobs/many", {"verb": "cancel", "filter.queue": "echo"})]:
            answer = await browser.post(address, data={CSRF_FIELD: known, **fields})
            expected = 200 if address == "/policy/check" else 403
            assert answer.status_code == expected, (address, answer.text)
    assert await state(sf) == before
    await server.close()


async def test_what_is_beside_the_pages_is_for_those_who_may_read(sf: Standfast) -> None:
    """Charts and metrics: nobody without a token, and nobody who reads only their own."""
    server = Server(sf)
    there = {each.path for each in paths(server)} & {"/live/series", "/metrics"}
    async with client(server) as stranger, client(server, headers=await bearer(sf, "p", "producer")) as producer:
        for address in there:
            assert (await stranger.get(address)).status_code == 401, address
            assert (await producer.get(address)).status_code in {401, 403}, address
        assert (await stranger.post("/mcp", json={})).status_code == 401
    await server.close()


async def asked(program: httpx2.AsyncClient, deed: Deed) -> httpx2.Response:
    return await program.request(deed.method, f"{API}{deed.path}", json=deed.body or {})


def forms(deeds: list[Deed]) -> list[tuple[str, dict[str, str]]]:
    """Give the same deeds as the dashboard's forms have them."""
    known = {(deed.method, deed.route): deed for deed in deeds}
    found = []
    for action in ACTIONS:
        deed = known[action.method, action.route]
        named = dict(zip(deed.route.split("/"), deed.path.split("/"), strict=True))
        address = plain(action.path).replace("{name}", named.get("{name}", "")).replace("{id}", named.get("{id}", ""))
        flat = {name: str(value) for name, value in (deed.body or {}).items() if name != "filter"}
        found.append((address, flat))
    return found


async def test_who_did_something_is_on_record(sf: Standfast, caplog: pytest.LogCaptureFixture) -> None:
    """The person behind the token, whichever route they took."""
    caplog.set_level(logging.INFO, logger="standfast.server")
    deeds = await made_ready(sf)
    server = Server(sf)
    for number, deed in enumerate(deeds):
        person = f"person-{number}-"
        shown = await bearer(sf, person, "admin", groups=["platform"], **deed.scope)
        async with client(server, headers=shown) as program:
            answer = await asked(program, deed)
        assert answer.status_code < 300, (deed, answer.text)
        where = RECORDED.get(deed.route, AUDIT)
        assert where is None or person in await record(sf, where, deed, answer, caplog), (deed, where)
    await server.close()


async def record(
    sf: Standfast, where: str, deed: Deed, answer: httpx2.Response, caplog: pytest.LogCaptureFixture
) -> str:
    """Give what is kept in one place of what was done."""
    if where == AUDIT:
        return str([entry for entry in await sf.audit.last(5) if entry["kind"] != "tokens" or "tokens" in deed.route])
    if where == SCHEDULE:
        return str([each["added_by"] for each in await sf.schedules.list()])
    if where == LOG:
        return caplog.text
    said = answer.json()
    made = said.get("id") or said.get("operation_id") or said["items"][0]["receipt"]["id"]
    job = await sf.status(deed.job or made)
    assert job is not None
    return f"{job.requester} {[line.by for line in job.history]}"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
async def test_a_page_of_another_origin_changes_nothing(sf: Standfast, origin: str) -> None:
    """Not even one that knew the field against forgery; signing in is no exception, nor is the door of agents."""
    server = Server(sf)
    token = (await sf.tokens.create("root", person="ann", role="admin"))["token"]
    before = await state(sf)
    async with client(server) as browser:
        known = await sign_in(browser, token)
        fields = {CSRF_FIELD: known, "token": token, "reason": "x"}
        browser.headers.update({"Origin": origin, "X-CSRF-Token": known, "Sec-Fetch-Site": "cross-site"})
        for path in paths(server):
            for method in (path.methods or {"POST"}) - {"GET", "HEAD"}:
                answer = await browser.request(method, concrete(path.path), data=fields)
                kind = answer.json()["type"]
                assert (answer.status_code, kind.rpartition("/")[2]) == (403, "wrong-origin"), (method, path.path)
                assert "set-cookie" not in answer.headers
    assert await state(sf) == before
    await server.close()


async def test_what_a_browser_sends_by_itself_is_not_enough(sf: Standfast) -> None:
    """Without an Origin, as old browsers may, the cookie alone changes nothing anywhere."""
    server = Server(sf)
    token = (await sf.tokens.create("root", person="ann", role="admin"))["token"]
    before = await state(sf)
    async with client(server) as browser:
        await sign_in(browser, token)
        for path in paths(server):
            if plain(path.path) in OPEN | SIGNING:
                continue
            for method in (path.methods or {"POST"}) - {"GET", "HEAD"}:
                answer = await browser.request(method, concrete(path.path), content=b"{}")
                assert answer.status_code == 403, (method, path.path, answer.text)
                assert "page of this server" in answer.text, (method, path.path)
    assert await state(sf) == before
    await server.close()
