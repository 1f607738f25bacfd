"""Requests that schemathesis makes up from the API's own document, fitting and misfit, asked by everybody."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from standfast import Permanent, Standfast
from standfast.server.api_routes import ROUTES
from standfast.server.app import Server
from standfast.server.openapi import document
from standfast.testing import drain
from standfast.wings.access.words import Role
from standfast.wings.calls import routes as calls
from standfast.wings.notices import routes as notices

HERE = "http://127.0.0.1"
MISFIT_EVERYTHING = "/ingest/"
"""Takes whatever comes, and judges it by its signature: nothing is misfit there."""
UNTOLD = frozenset({"Authorization", "Accept-Encoding", "Connection"})
"""Headers that are the client's own affair."""

ANSWERED_WITHIN = 10.0
"""Seconds after which a request counts as forgotten."""

Ask = Callable[[Any], None]


class Asked:
    """A server that is asked by everybody; nothing may be its own mistake."""

    def __init__(self, sf: Standfast) -> None:
        self._sf = sf
        self._clients: dict[str | None, httpx2.AsyncClient] = {}
        self._known = itertools.cycle([""])
        self._names = itertools.cycle(["echo", "nightly"])
        self.answers: set[int] = set()

    async def begin(self) -> None:
        """Put something there to be asked for, and make a token for each role."""
        transport = httpx2.ASGITransport(app=Server(self._sf).app)
        for role in (None, *Role):
            shown = {}
            if role is not None:
                made = await self._sf.tokens.create(role, person=role, role=role)
                shown = {"Authorization": f"Bearer {made['token']}"}
            self._clients[role] = httpx2.AsyncClient(transport=transport, base_url=HERE, headers=shown)
        ids = [str((await self._sf.enqueue(queue, 1)).id) for queue in ("refused", "echo", "refused")]
        await drain(self._sf)
        await self._sf.schedules.add("nightly", "echo", every=3600)
        self._known = itertools.cycle([*ids, str((await self._sf.enqueue("echo", 2, delay=3600)).id), "nowhere"])

    async def end(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            await client.aclose()

    async def judge(self, case: Any) -> None:
        """Ask what a case asks, of things that are there too, as everybody."""
        named = [case.path_parameters or {}]
        if "id" in named[0]:
            named.append({**named[0], "id": next(self._known)})
        if "name" in named[0]:
            named.append({**named[0], "name": next(self._names)})
        for parts in named:
            case.path_parameters = parts
            said = case.as_transport_kwargs(base_url=HERE)
            for role, client in self._clients.items():
                try:
                    answer = await asyncio.wait_for(client.send(_request(said, client)), ANSWERED_WITHIN)
                except TimeoutError:
                    raise AssertionError("no answer", case.operation.label, role, said) from None
                self._check(case, role, answer)

    def _check(self, case: Any, role: str | None, answer: httpx2.Response) -> None:
        what = (case.operation.label, role, case.path_parameters, case.query, case.body, answer.text)
        assert answer.status_code < 500, what
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", what
            assert answer.json()["hint"], what
        if role is None and MISFIT_EVERYTHING not in case.operation.path:
            assert answer.status_code == 401, what
        self.answers.add(answer.status_code)


def _request(said: dict[str, Any], client: httpx2.AsyncClient) -> httpx2.Request:
    """Give what a case asks, as this client asks it."""
    headers = {name: value for name, value in said["headers"].items() if name not in UNTOLD}
    body = {"content": said["data"]} if "data" in said else {"json": said["json"]} if "json" in said else {}
    if isinstance(body.get("content"), str):
        body["content"] = body["content"].encode(errors="surrogatepass")
    asked = httpx2.Request(said["method"], said["url"], params=said["params"], headers=headers, **body)
    asked.headers.update(client.headers)
    return asked


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.long)])
def asked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Asked, Callable[[Coroutine[Any, Any, None]], None]]]:
    """Give a server, and what asks it in a loop of its own: hypothesis calls plain functions."""
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    sf = Standfast(url)
    sf.handler("echo")(lambda job: job.payload)

    @sf.handler("refused")
    async def refused(_job):
        raise Permanent("no")

    monkeypatch.setattr(calls, "LONGEST_RUN", 0.1)
    monkeypatch.setattr(notices, "LONGEST", 0.01)
    with asyncio.Runner() as runner:
        made = Asked(sf)
        runner.run(made.begin())
        yield made, runner.run
        runner.run(made.end())
        runner.run(sf.close())


def fuzz(judge: Ask, examples: int, *, each_way: bool) -> None:
    """Make requests up for everything the document names; both fitting and misfit, or in turn one or the other."""
    import schemathesis  # noqa: PLC0415 - slow to import, and every process of a run collects every file
    from schemathesis import GenerationMode  # noqa: PLC0415 - likewise

    @schemathesis.serializer("application/x-ndjson")
    def _one_line(_context: Any, value: Any) -> bytes:
        return json.dumps(value).encode()

    schema = schemathesis.openapi.from_dict(document(ROUTES))
    quietly = settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for number, found in enumerate(schema.get_all_operations()):
        operation = found.ok()  # type: ignore[union-attr]
        for mode in GenerationMode if each_way else [list(GenerationMode)[number % 2]]:
            if mode == GenerationMode.POSITIVE or MISFIT_EVERYTHING not in operation.path:
                quietly(given(operation.as_strategy(generation_mode=mode))(judge))()


@pytest.mark.timeout(120)
def test_nothing_that_is_asked_is_a_mistake_of_ours(asked) -> None:
    """A few of each, so that every run has them."""
    made, run = asked
    fuzz(lambda case: run(made.judge(case)), 2, each_way=False)
    assert {200, 401, 403, 404, 422} <= made.answers


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_nothing_that_is_asked_for_long_is_a_mistake_of_ours(asked) -> None:
    """Many of each."""
    made, run = asked
    fuzz(lambda case: run(made.judge(case)), 100, each_way=True)
