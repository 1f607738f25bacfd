"""Arguments that a handler or a tool does not have are refused, with the nearest that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from standfast import Standfast
from tests.doors.agents import said
from tests.doors.test_mcp_handlers import agent


@pytest.fixture(params=["memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "memory" else str(request.getfixturevalue("used_postgres_url"))


class Struct(msgspec.Struct):
    title: str
    pause: int = 0


@dataclass
class Class:
    title: str
    pause: int = 0


class Dict(TypedDict, total=False):
    title: str
    pause: int


class Model(pydantic.BaseModel):
    title: str
    pause: int = 0


class Open(pydantic.BaseModel, extra="allow"):
    title: str


class Renamed(msgspec.Struct, rename="camel"):
    title: str
    pause: int = 0


@pytest.mark.parametrize("input_", [Struct, Class, Dict, Model, Renamed])
async def test_an_argument_that_the_handler_does_not_have_is_refused(url: str, input_: Any) -> None:
    """Before, `paus` was stored, and the handler ran without its pause."""
    sf = Standfast(url)
    sf.handler("play", input=input_)(lambda _: None)
    async with sf, Standfast(url) as bare, agent(sf) as there, agent(bare) as elsewhere:
        for client in (there, elsewhere) if url != ":memory:" else (there,):
            for tool, given in (
                ("play", {"title": "x", "paus": 3}),
                ("run", {"handler": "play", "params": {"title": "x", "paus": 3}}),
                ("submit", {"handler": "play", "params": {"title": "x", "paus": 3}}),
            ):
                refused = await said(client, tool, **given)
                assert refused["status"] == "failed"
                assert "there is no argument 'paus' (did you mean 'pause'?)" in refused["error"]
            refused = await said(client, "play", title="x", idempotency_kye="k")
            assert "did you mean 'idempotency_key'?" in refused["error"]
        assert await sf.jobs() == []
        assert (await said(there, "play", title="x", pause=3, idempotency_key="k"))["status"] == "ok"
        assert (await said(there, "run", handler="play", params={"title": "x"}))["status"] == "ok"


@pytest.mark.parametrize(
    "input_", [None, dict, dict[str, int], Open, Struct | None], ids=["none", "dict", "map", "open", "union"]
)
async def test_a_handler_whose_fields_are_not_known_takes_any(url: str, input_: Any) -> None:
    sf = Standfast(url)
    taken: Callable[..., Any] = lambda job: job.payload  # noqa: E731 - each gets a handler of its own
    sf.handler("play", input=input_)(taken)
    async with sf, agent(sf) as client:
        given = {"title": "x", "paus": 3} if input_ != dict[str, int] else {"paus": 3}
        replied = await said(client, "play", **({"payload": {"title": "x"}} if input_ == Struct | None else given))
        assert replied["status"] == "ok", replied


async def test_a_payload_that_is_no_object_takes_no_other_argument(url: str) -> None:
    sf = Standfast(url)
    sf.handler("sums", input=list[int])(lambda job: sum(job.input))
    async with sf, agent(sf) as client:
        refused = await said(client, "sums", payload=[1], idempotency_kay="k")
        assert "did you mean 'idempotency_key'?" in refused["error"]
        assert (await said(client, "sums", payload=[1, 2], idempotency_key="k"))["result"] == 3


async def test_a_job_is_named_by_either_word_and_by_one_of_them(url: str) -> None:
    sf = Standfast(url)
    sf.handler("echo")(lambda job: job.payload)
    async with sf, agent(sf) as client:
        first, second = [(await said(client, "echo", n=n))["operation_id"] for n in (1, 2)]
        for tool in ("status", "wait", "explain", "result", "retry", "cancel"):
            assert (await said(client, tool, id=first, operation_id=first))["operation_id"] == first
            refused = await said(client, tool, id=first, operation_id=second)
            assert (refused["status"], "Give one of the two" in refused["error"]) == ("failed", True)
