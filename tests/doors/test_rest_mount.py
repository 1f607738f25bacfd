"""The server inside an application that is there already, and its webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from standfast import ConfigurationError, Standfast
from standfast.fastapi import grant, mount
from standfast.server.app import Server
from standfast.wings.access.words import Grant
from tests.core.deliveries import SECRET, encoded, event, github, pull_request

PEOPLE = {"ann": "operator", "vic": "viewer"}


def signed_in(request: Request) -> Grant | None:
    """Tell who asks, as an application with sessions of its own would."""
    name = request.cookies.get("who")
    return grant(name, PEOPLE[name]) if name in PEOPLE else None


def client(app: Any, **options: Any) -> httpx2.AsyncClient:
    """Give a client of an application in this process."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="https://shop.example", **options)


@asynccontextmanager
async def living(app: FastAPI) -> AsyncIterator[None]:
    """Run an application from its start to its end."""
    async with app.router.lifespan_context(app):
        yield


async def test_a_mounted_server_works_as_long_as_its_application() -> None:
    """Its own lifespan and routes stay; jobs are taken and run; afterwards the queue is closed."""
    happened: list[str] = []

    @asynccontextmanager
    async def own(_app: FastAPI) -> AsyncIterator[None]:
        happened.append("began")
        yield
        happened.append("ended")

    app, sf = FastAPI(lifespan=own), Standfast(":memory:")
    app.get("/own")(lambda: "mine")
    sf.handler("echo")(lambda job: job.payload)
    mount(app, sf, auth=signed_in)
    async with living(app), client(app, cookies={"who": "ann"}) as ann:
        assert (await ann.get("/own")).json() == "mine"
        page = {"Origin": "https://shop.example"}
        taken = await ann.post("/standfast/api/v1/jobs", json={"queue": "echo", "payload": 7}, headers=page)
        assert taken.status_code == 201, taken.text
        done = await sf.wait(taken.json()["id"], 10)
        assert (done.result, done.requester) == (7, "ann")
        document = (await ann.get("/standfast/api/v1/openapi.json")).json()
        assert document["servers"] == [{"url": "/standfast"}]
    assert happened == ["began", "ended"]


async def test_who_asks_is_what_the_application_says() -> None:
    """Its people have its roles; others need a token; and no page of somebody else's is obeyed."""
    app, sf = FastAPI(), Standfast(":memory:")
    sf.queue("echo")
    mount(app, sf, "/queue", auth=signed_in, worker=False)
    job, page = {"queue": "echo"}, {"Origin": "https://shop.example"}
    async with living(app), client(app) as nobody, client(app, cookies={"who": "vic"}) as vic:
        assert (await nobody.get("/queue/api/v1/stats")).status_code == 401
        assert (await vic.get("/queue/api/v1/stats")).status_code == 200
        assert (await vic.post("/queue/api/v1/jobs", json=job, headers=page)).status_code == 403
        token = (await sf.tokens.create("t", person="tom", role="producer"))["token"]
        shown = {"Authorization": f"Bearer {token}"}
        assert (await nobody.post("/queue/api/v1/jobs", json=job, headers=shown)).status_code == 201
    async with client(app, cookies={"who": "ann"}) as ann:
        blind = await ann.post("/queue/api/v1/queues/echo/pause")
        foreign = await ann.post("/queue/api/v1/queues/echo/pause", headers={"Origin": "https://evil.example"})
        basic = await ann.post("/queue/api/v1/queues/echo/pause", headers={"Authorization": "Basic YTpi"})
        assert [answer.json()["title"] for answer in (blind, foreign, basic)] == ["csrf", "wrong origin", "csrf"]


async def test_the_applications_people_use_the_forms_of_pages() -> None:
    """By their own session: a form counts if the browser says that it comes from here, and no other does."""
    app, sf = FastAPI(), Standfast(":memory:")
    mount(app, sf, auth=signed_in, worker=False)
    address = "/standfast/queues/echo/pause"
    async with living(app), client(app, cookies={"who": "ann"}) as ann, client(app, cookies={"who": "vic"}) as vic:
        await sf.enqueue("echo")
        here, elsewhere = {"Origin": "https://shop.example"}, {"Origin": "https://evil.example"}
        refused = [
            await ann.post(address),
            await ann.post(address, headers=elsewhere),
            await ann.post(address, headers={**here, "Sec-Fetch-Site": "same-site"}),
            await vic.post(address, headers=here),
        ]
        assert [answer.status_code for answer in refused] == [403] * 4
        assert not (await sf.queues.describe())["echo"]["paused"]
        page = (await ann.get("/standfast/queues/echo")).text
        assert "Sign out" not in page  # it is the application that signs its people out
        done = await ann.post(address, data={"csrf": page.partition('name="csrf" value="')[2][:64]}, headers=here)
        assert (done.status_code, done.headers["location"]) == (303, "/standfast/queues/echo?done=pause")
        assert (await sf.queues.describe())["echo"]["paused"]


def test_what_cannot_be_mounted_is_said_at_once() -> None:
    """A prefix that leads nowhere, a role that is none."""
    with pytest.raises(ConfigurationError, match="prefix"):
        mount(FastAPI(), Standfast(":memory:"), "queue/")
    with pytest.raises(ConfigurationError, match="known are"):
        grant("ann", "boss")


@pytest.fixture
async def hooked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Standfast]:
    """Give a queue that takes GitHub's webhooks, on a server that is known by another name."""
    monkeypatch.chdir(tmp_path)
    written = (
        '[server]\nhosts = ["shop.example"]\n[ingest.github]\nsecret_env = "HOOK"\nlogin = "bob"\nmax_body = 90000\n'
    )
    (tmp_path / "standfast.toml").write_text(written)
    monkeypatch.setenv("HOOK", SECRET)
    async with Standfast(":memory:") as sf:
        yield sf


async def test_a_signed_delivery_becomes_a_job_without_a_token(hooked: Standfast) -> None:
    """Stored once; unsigned, unknown and too large ones are refused, before they are read."""
    body = encoded(event("opened", pull_request=pull_request()))
    headers = github("pull_request", body)
    async with client(Server(hooked).app) as sender:
        path = "/api/v1/ingest/github"
        first = await sender.post(path, content=body, headers=headers)
        again = await sender.post(path, content=body, headers=headers)
        assert (first.status_code, again.status_code) == (201, 200), first.text
        assert (again.json()["outcome"], again.json()["id"]) == ("duplicate", first.json()["id"])
        forged = await sender.post(path, content=body + b" ", headers=headers)
        unknown = await sender.post("/api/v1/ingest/other", content=b"")
        flood = await sender.post("/api/v1/ingest/other", content=b"x")
        large = await sender.post(path, content=b"x" * 90_001, headers=headers)
        huge = await sender.post(path, content=b"", headers={**headers, "Content-Length": str(26 << 20)})
        odd = await sender.post("/api/v1/ingest/%00", content=b"")
    refused = [forged, unknown, flood, large, huge, odd]
    assert [answer.status_code for answer in refused] == [401, 404, 404, 413, 413, 422]
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
    [job] = await hooked.jobs()
    assert job.requester == "ingest:github"
