"""The document of the API says what each route answers, and each route answers that."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx2
import pytest

from standfast import Standfast
from standfast.server.api_routes import ROUTES
from standfast.server.app import API, Server
from standfast.server.openapi import document
from standfast.testing import drain
from tests.doors.deeds import Deed, declare, made_ready
from tests.doors.published import check, check_value, operation_of, published

HERE = "http://127.0.0.1"
STREAM = "GET /notices"
SECRET = "hush"  # noqa: S105 - of this test alone


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest, here: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Standfast]:
    """Give a queue with letters, and a source of webhooks."""
    (here / "standfast.toml").write_text('[ingest.github]\nsecret_env = "HOOK"\nqueue = "echo"\n')
    monkeypatch.setenv("HOOK", SECRET)
    made = Standfast(":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url"))
    declare(made)
    async with made:
        yield made


@pytest.fixture
async def client(sf: Standfast) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client that may do everything, in the session `zoe` too."""
    token = await sf.tokens.create("all", person="ann", role="admin", groups=["platform"])
    shown = {"Authorization": f"Bearer {token['token']}"}
    transport = httpx2.ASGITransport(app=Server(sf).app)
    async with httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}", headers=shown) as made:
        yield made


async def looks(sf: Standfast, deeds: Iterable[Deed]) -> list[str]:
    """Give an address for each route that only looks, all of them about something that is there."""
    letter = next(deed.job for deed in deeds if deed.route.endswith("/quarantine"))
    approval = next(deed.path for deed in deeds if deed.route.endswith("/deny")).removesuffix("/deny")
    plan = next(deed.path for deed in deeds if deed.route == "/redrives/{id}/pause").removesuffix("/pause")
    flow = next(deed.path for deed in deeds if deed.route == "/workflows/{id}/cancel").removesuffix("/cancel")
    done = str((await sf.enqueue("echo", {"n": 1})).id)
    await drain(sf)
    return [
        *("/jobs", f"/jobs/{done}", f"/jobs/{done}/explain", f"/jobs/{done}/result?key=n"),
        *("/dead-letters", "/dead-letters/groups", f"/dead-letters/{letter}", plan, flow),
        *("/redrives", "/queues", "/stats", "/health", "/workers", "/alerts", "/approvals?state=all", approval),
        *("/audit", "/audit?last=3", "/audit/verify", "/policy", "/tokens", "/schedules", "/workflows?state=cancelled"),
        "/sessions/zoe/inbox?unread=false",
        "/consents",
    ]


async def delivered(client: httpx2.AsyncClient) -> httpx2.Response:
    """Send a webhook."""
    body = json.dumps({"action": "opened", "issue": {"number": 1}, "repository": {"full_name": "a/b"}}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    signed = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "issues", "X-GitHub-Delivery": "d1"}
    return await client.post("/ingest/github", content=body, headers=signed)


async def test_every_route_answers_as_the_document_says(sf: Standfast, client: httpx2.AsyncClient) -> None:
    """Each route once where it succeeds; a worker runs, and something is wrong, so that no list is empty."""
    deeds = await made_ready(sf)
    session = await sf.tokens.create("zoe", person="ann", role="admin", sessions=["zoe"])
    asked: set[str] = set()

    async def ask(method: str, path: str, body: Any = None) -> None:
        own = {"Authorization": f"Bearer {session['token']}"} if path.startswith("/sessions/") else {}
        answer = await client.request(method, path, json=body, headers=own)
        assert answer.is_success, (method, path, answer.text)
        operation = check(answer)
        assert operation is not None, (method, path)
        asked.add(f"{method} {operation.path.removeprefix(API)}")

    for deed in deeds:
        await ask(deed.method, deed.path, deed.body)
    async with sf.worker(["echo"]):
        for path in await looks(sf, deeds):
            await ask("GET", path)
    hook = await delivered(client)
    assert check(hook) is not None, hook.text
    assert hook.is_success, hook.text
    known = {f"{route.method} {route.path}" for route in ROUTES}
    assert known - asked == {STREAM}, "ask these in tests/doors/deeds.py, or in looks() above"


async def test_lists_of_workers_and_alerts_say_what_a_person_looks_for(sf: Standfast, client: Any) -> None:
    began, ends = asyncio.Event(), asyncio.Event()

    @sf.handler("slow")
    async def slow(_job: Any) -> None:
        began.set()
        await ends.wait()

    job = (await sf.enqueue("slow", 1)).id
    async with sf.worker(["slow"]):
        await began.wait()
        [worker] = (await client.get("/workers")).json()["items"]
        ends.set()
    assert (worker["running"], [each["id"] for each in worker["jobs"]]) == ({"slow": 1}, [job])
    assert (await client.get("/alerts")).json() == {"items": []}


def test_every_route_says_what_it_answers() -> None:
    silent = [f"{each.method} {each.path}" for each in ROUTES if each.answer is None and each.answers != (204,)]
    assert silent == [], "give each Route an `answer=`: a type in shapes.py of its wing"


def test_every_answer_of_the_document_has_a_schema_and_every_refusal_is_a_problem() -> None:
    for path, methods in document(ROUTES)["paths"].items():
        for method, said in methods.items():
            for status, response in said["responses"].items():
                if status.startswith("2") and status != "204":
                    assert response["content"], (method, path, status)
                    for content in response["content"].values():
                        assert content["schema"] not in ({}, None), (method, path, status)
                elif status != "204":
                    assert response == {"$ref": f"#/components/responses/{status}"}, (method, path, status)
    problems = document(ROUTES)["components"]["responses"].values()
    assert all(list(each["content"]) == ["application/problem+json"] for each in problems)


def test_every_schema_of_the_document_is_used() -> None:
    """A filter of a query is written out in its parameters, and needs no schema."""
    drawn = json.dumps(document(ROUTES))
    schemas = document(ROUTES)["components"]["schemas"]
    assert [name for name in schemas if f'"#/components/schemas/{name}"' not in drawn] == []
    internal = [name for name in schemas if name.startswith(("Wanted", "Shown", "Perhaps", "_"))]
    assert internal == [], "name these for a reader of the document: NAMES in server/openapi.py"


def test_a_field_that_a_schema_does_not_name_is_noticed() -> None:
    """The check itself tells the truth."""
    schema = {"$ref": "#/components/schemas/QueueSwitch"}
    check_value({"name": "echo", "paused": True}, schema, "here")
    for wrong in ({"name": "echo"}, {"name": "echo", "paused": 1}, {"name": "echo", "paused": True, "more": 1}):
        with pytest.raises(AssertionError, match="not as its schema"):
            check_value(wrong, schema, "here")


def test_a_path_is_told_from_one_that_names_something() -> None:
    assert published()["openapi"] == "3.1.0"
    groups, letter = operation_of("GET", f"{API}/dead-letters/groups"), operation_of("GET", f"{API}/dead-letters/x")
    assert (groups and groups.path, letter and letter.path) == (
        f"{API}/dead-letters/groups",
        f"{API}/dead-letters/{{id}}",
    )
