"""FastAPI and Starlette: a lifespan that opens the queue, runs a worker, and closes; a dependency that gives it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from standfast import ConfigurationError, Standfast
from standfast.errors import StoreClosed
from standfast.fastapi import answer_errors, current, lifespan, mount

Queue = Annotated[Standfast, Depends(current)]


@pytest.fixture
def sf(tmp_path) -> Standfast:
    made = Standfast(str(tmp_path / "queue.db"))
    made.handler("double")(lambda job: job.payload * 2)
    return made


def client(app: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://shop.example")


def with_route(app: FastAPI) -> FastAPI:
    @app.post("/double/{number}")
    async def double(number: int, queue: Queue) -> Any:
        receipt = await queue.enqueue("double", number)
        return (await queue.wait(receipt.id, timeout=20)).result

    return app


async def test_a_lifespan_opens_works_and_closes(sf):
    app = with_route(FastAPI(lifespan=lifespan(sf)))
    async with app.router.lifespan_context(app), client(app) as asking:
        assert (await asking.post("/double/4")).json() == 8
    with pytest.raises(StoreClosed):
        await sf.enqueue("double", 1)


async def test_it_composes_with_the_applications_own_lifespan(sf):
    happened: list[Any] = []

    @asynccontextmanager
    async def own(_app: Any) -> AsyncIterator[dict[str, int]]:
        happened.append((await sf.enqueue("double", 1)).outcome)
        yield {"own": 7}
        happened.append((await sf.enqueue("double", 2)).outcome)

    app = FastAPI(lifespan=lifespan(sf, own, worker=False))
    async with app.router.lifespan_context(app) as state:
        assert state == {"own": 7}
    assert happened == ["accepted", "accepted"]


async def test_without_a_worker_jobs_wait_for_one_elsewhere(sf):
    app = FastAPI(lifespan=lifespan(sf, worker=False))
    async with app.router.lifespan_context(app):
        receipt = await sf.enqueue("double", 1)
        assert await sf.workers() == []
        assert (await sf.status(receipt.id)).attempts == 0


async def test_starlette_alone_will_do(sf):
    async def enqueue(request: Request) -> JSONResponse:
        receipt = await current(request).enqueue("double", 4)
        return JSONResponse((await current(request).wait(receipt.id, timeout=20)).result)

    app = Starlette(routes=[Route("/", enqueue)], lifespan=lifespan(sf))
    async with app.router.lifespan_context(app), client(app) as asking:
        assert (await asking.get("/")).json() == 8


async def test_a_mounted_queue_is_a_dependency_too(sf):
    app = with_route(FastAPI())
    mount(app, sf)
    async with app.router.lifespan_context(app), client(app) as asking:
        assert (await asking.post("/double/5")).json() == 10


def test_web_sockets_get_it_too(sf):
    app = FastAPI(lifespan=lifespan(sf))

    @app.websocket("/jobs")
    async def jobs(socket: WebSocket, queue: Queue) -> None:
        await socket.accept()
        await socket.send_json((await queue.enqueue("double", 1)).outcome)
        await socket.close()

    with TestClient(app) as asking, asking.websocket_connect("/jobs") as socket:
        assert socket.receive_json() == "accepted"


async def test_an_application_without_a_queue_is_told_so():
    app = with_route(FastAPI())
    async with client(app) as asking:
        with pytest.raises(ConfigurationError, match="lifespan=lifespan"):
            await asking.post("/double/1")


async def test_a_lifespan_that_fails_to_begin_closes_what_it_opened(sf):
    @asynccontextmanager
    async def broken(app: Any) -> AsyncIterator[None]:
        if app is not None:
            raise RuntimeError("no configuration")
        yield

    app = FastAPI(lifespan=lifespan(sf, broken))
    with pytest.raises(RuntimeError, match="no configuration"):
        await app.router.lifespan_context(app).__aenter__()
    with pytest.raises(StoreClosed):
        await sf.enqueue("double", 1)


async def test_an_error_of_standfast_in_a_route_is_answered_as_the_api_does(sf):
    app = FastAPI(lifespan=lifespan(sf, worker=False))
    answer_errors(app)

    @app.post("/double/{number}")
    async def double(number: int, queue: Queue) -> str | None:
        return (await queue.enqueue("double", number, idempotency_key="same")).id

    async with app.router.lifespan_context(app), client(app) as asking:
        assert (await asking.post("/double/4")).status_code == 200
        conflict = await asking.post("/double/5")
    assert conflict.status_code == 422
    assert conflict.headers["content-type"] == "application/problem+json"
    assert "with another payload; nothing was written" in conflict.json()["detail"]
