"""Agents see what they may call: a tool for each published handler, also at a server that does not have its code."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import httpx2
import msgspec
import pydantic
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Tool

from standfast import Effect, Standfast
from standfast.mcp.agent_identity import identity
from standfast.mcp.agent_server import NAMES, agent_server
from standfast.mcp.tool_names import tool_names
from standfast.server.app import Server
from tests.doors.agents import said
from tests.on_disk import path, url

__all__ = ["path", "url"]

HERE = "http://127.0.0.1"


class Mail(msgspec.Struct):
    """A mail."""

    to: str
    title: str = ""
    urgent: bool = False


class Line(pydantic.BaseModel):
    """One line of an order."""

    article: str
    count: int = 1


class Order(pydantic.BaseModel):
    customer: str
    lines: list[Line]


@dataclass
class Page:
    number: int


class Note(TypedDict):
    text: str


def office(url: str) -> Standfast:
    """Give an application with a handler of each kind."""
    sf = Standfast(url)

    @sf.handler("mail", input=Mail)
    async def mail(job: Any) -> Any:
        """Send a mail.

        What follows the first paragraph is for who reads it all.
        """
        return {"to": job.input.to, "session": job.session}

    @sf.handler("orders", input=Order, replay="verify_first", effects=[Effect("order", lambda _: True)])
    async def orders(job: Any) -> Any:
        return {"lines": len(job.input.lines)}

    @sf.handler("pages", input=Page, replay="manual", risk="high")
    def pages(job: Any) -> Any:
        """Print a page."""
        return job.input.number

    @sf.handler("notes", input=Note, risk="low", consent=False)
    def notes(job: Any) -> Any:
        """Keep a note."""
        return job.payload

    @sf.handler("sums", input=list[int])
    def sums(job: Any) -> Any:
        """Add numbers."""
        return sum(job.input)

    sf.handler("anything")(lambda job: job.payload)
    return sf


@asynccontextmanager
async def agent(sf: Standfast, session: str = "agent-1") -> AsyncIterator[Client]:
    async with Client(agent_server(sf, identity(session), version="test")) as client:
        yield client


async def offered(client: Client) -> dict[str, Tool]:
    """Give the tools of handlers."""
    return {tool.name: tool for tool in (await client.list_tools()).tools if tool.name not in NAMES}


async def test_a_server_without_the_code_lists_handlers_with_docstring_and_schema(url: str) -> None:
    """What the process with the code has published is enough."""
    async with office(url) as there, Standfast(url) as here, agent(here) as client:
        tools = await offered(client)
        assert set(tools) == {"mail", "orders", "pages", "notes", "sums", "anything"}
        assert tools["mail"].description == "Send a mail."
        assert tools["anything"].description == "Runs anything/anything."
        schema = tools["mail"].input_schema
        assert (schema["type"], schema["required"]) == ("object", ["to"])
        assert schema["properties"]["title"]["type"] == "string", "a field that is called title stays"
        assert schema["properties"]["idempotency_key"] == {"type": "string"}
        nested = tools["orders"].input_schema
        assert nested["$defs"]["Line"]["required"] == ["article"]
        assert tools["sums"].input_schema["properties"]["payload"]["type"] == "array"
        async with there.worker():
            reply = await said(client, "mail", to="ann")
            assert reply["result"] == {"to": "ann", "session": "agent-1"}
            assert (await said(client, "sums", payload=[1, 2, 3]))["result"] == 6
            assert (await said(client, "anything", a=1))["result"] == {"a": 1}
            assert (await said(client, "orders", customer="c", lines=[{"article": "a"}]))["result"] == {"lines": 1}
        [contents] = (await client.read_resource("standfast://handlers")).contents
        assert "for who reads it all" in str(contents)


async def test_what_changes_in_the_code_changes_the_tool(url: str) -> None:
    """The last published card counts."""
    async with office(url):
        pass
    changed = Standfast(url)

    @changed.handler("mail", input=Note)
    def mail(job: Any) -> None:
        """Post a letter."""

    async with changed, agent(changed) as client:
        tool = (await offered(client))["mail"]
        assert tool.description == "Post a letter."
        assert tool.input_schema["required"] == ["text"]


async def test_arguments_that_do_not_fit_are_refused_where_the_code_is_not(url: str) -> None:
    """Nothing is stored, and the agent is told which argument it is."""
    async with office(url), Standfast(url) as here, agent(here) as client:
        refused = await client.call_tool("mail", {"to": 7})
        assert refused.is_error
        assert refused.structured_content is not None
        assert "to: 7 is not of type 'string'" in refused.structured_content["error"]
        assert "nothing was done" in refused.structured_content["error"]
        assert (await client.call_tool("mail", {"title": "x"})).is_error
        assert (await client.call_tool("mail", {"to": "ann", "idempotency_key": 7})).is_error
        assert await here.jobs() == []


async def test_a_call_with_a_key_is_made_once(url: str) -> None:
    async with office(url) as sf, agent(sf) as client:
        first = await said(client, "mail", to="ann", idempotency_key="k1")
        again = await said(client, "mail", to="ann", idempotency_key="k1")
        assert again["operation_id"] == first["operation_id"]
        assert (await client.call_tool("mail", {"to": "bob", "idempotency_key": "k1"})).is_error
        assert len(await sf.jobs()) == 1


async def test_annotations_say_no_more_than_was_declared(url: str) -> None:
    """What a handler does not declare is taken to be so, as the protocol has it."""
    async with office(url) as sf, agent(sf) as client:
        tools = await offered(client)
    found = {name: tool.annotations for name, tool in tools.items()}
    for name in ("mail", "orders", "pages", "anything"):
        assert found[name] is None or (found[name].destructive_hint, found[name].idempotent_hint) == (True, False)  # type: ignore[union-attr]
    assert found["notes"] is not None
    assert (found["notes"].destructive_hint, found["notes"].idempotent_hint) == (False, True)
    assert not any(each.read_only_hint for each in found.values() if each is not None)


SHORT = ("Send a mail.", Mail)
LONG = ("Send a mail to a person outside of the house. " * 20, Order)


@pytest.mark.parametrize(("docstring", "input_"), [SHORT, LONG])
async def test_the_listing_of_ten_handlers_is_short(url: str, docstring: str, input_: Any) -> None:
    """Whatever their authors wrote, in whatever way it is written as JSON; and all of them are there."""
    sf = Standfast(url)
    for number in range(10):

        async def handler(job: Any) -> Any:
            return job.payload

        handler.__doc__ = docstring
        sf.handler(f"send_mail_{number}", input=input_)(handler)
    async with sf, agent(sf) as client:
        tools = (await client.list_tools()).tools
        written = json.dumps([tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools])
        assert len(written) < 6000
        assert {f"send_mail_{number}" for number in range(10)} < {tool.name for tool in tools}
        assert all(tool.description for tool in tools)


class Many(msgspec.Struct):
    first_of_the_arguments: str
    second_of_the_arguments: int
    third_of_the_arguments: list[str] = []
    fourth_of_the_arguments: dict[str, int] = {}
    fifth_of_the_arguments: float | None = None
    sixth_of_the_arguments: bool = False


async def test_a_listing_that_is_cut_short_still_names_the_arguments_that_a_handler_needs(url: str) -> None:
    """Before, ten handlers with many arguments were listed as taking any object, and an agent had to guess."""
    sf = Standfast(url)
    for number in range(10):
        sf.handler(f"handler_with_a_long_name_{number}", input=Many)(lambda _job: None)
    async with sf, agent(sf) as client:
        tools = (await client.list_tools()).tools
    written = json.dumps([tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools])
    assert len(written) < 6000
    for tool in tools:
        if tool.name.startswith("handler_with"):
            assert tool.input_schema["required"] == ["first_of_the_arguments", "second_of_the_arguments"]


async def test_the_listing_of_few_handlers_leaves_nothing_out(url: str) -> None:
    sf = Standfast(url)

    @sf.handler("mail", input=Mail)
    def mail(job: Any) -> None:
        """Send a mail."""

    async with sf, agent(sf) as client:
        [tool] = (await offered(client)).values()
    assert tool.annotations is not None
    hints = tool.annotations.model_dump(exclude_none=True)
    assert hints == {
        "read_only_hint": False,
        "destructive_hint": True,
        "idempotent_hint": False,
        "open_world_hint": True,
    }
    assert tool.input_schema["properties"]["urgent"] == {"type": "boolean", "default": False}


async def test_handlers_whose_names_are_taken_are_both_callable(url: str) -> None:
    """By a built-in tool, by each other, or by each other once they are written as models take them."""
    sf = Standfast(url)
    for queue, name in (("status", "status"), ("a", "send"), ("b", "send"), ("x.y", "x.y"), ("x", "x_y"), ("ä", "ä")):
        sf.handler(queue, name=name)(lambda job: f"{job.queue}/{job.payload['n']}")
    async with sf, agent(sf) as client:
        tools = await offered(client)
        assert {"status_status", "a_send", "b_send", "x_y_x_y", "x_x_y", "_"} == set(tools)
        for name, queue in (("status_status", "status"), ("a_send", "a"), ("b_send", "b"), ("x_y_x_y", "x.y")):
            assert (await said(client, name, n=1))["result"] == f"{queue}/1"
        assert (await said(client, "status"))["session"] == "agent-1"


def test_names_are_told_apart_whatever_they_are() -> None:
    handlers = [("a_b", "c"), ("a", "b_c"), ("q", "c"), ("r", "b_c"), ("q" * 80, "n" * 80), ("q" * 80, "n" * 81)]
    names = tool_names(handlers, {"run"})
    assert sorted(names.values()) == sorted(handlers)
    assert all(0 < len(name) <= 64 for name in names)


@pytest.fixture
async def server(url: str) -> AsyncIterator[tuple[Standfast, Server]]:
    async with office(url) as sf:
        made = Server(sf)
        yield sf, made
        await made.close()


@asynccontextmanager
async def connected(served: tuple[Standfast, Server], role: str, **scope: Any) -> AsyncIterator[Client]:
    sf, server = served
    made = await sf.tokens.create(f"{role}-{len(await sf.tokens.list())}", person="p", role=role, **scope)
    transport = httpx2.ASGITransport(app=server.app)
    headers = {"Authorization": f"Bearer {made['token']}"}
    async with (
        httpx2.AsyncClient(transport=transport, base_url=HERE, headers=headers) as http,
        Client(streamable_http_client(f"{HERE}/mcp", http_client=http)) as client,
    ):
        yield client


async def test_what_a_token_may_not_call_is_not_listed_and_is_refused(server: tuple[Standfast, Server]) -> None:
    """By its queues, and by its role."""
    async with connected(server, "producer", queues=["mail"]) as scoped, connected(server, "viewer") as viewer:
        assert set(await offered(scoped)) == {"mail"}
        assert (await said(scoped, "mail", to="ann"))["status"] == "ok"
        refused = await scoped.call_tool("notes", {"text": "x"})
        assert refused.is_error
        assert "unknown tool 'notes'" in str(refused.structured_content)
        assert [each["tool"] for each in (await said(scoped, "status"))["capabilities"]] == ["mail"]
        listed = {tool.name for tool in (await scoped.list_tools()).tools}
        assert not listed & {"health", "list_dead_letters"}, "what a producer may not read is not offered"

        assert await offered(viewer) == {}
        assert (await viewer.call_tool("mail", {"to": "ann"})).is_error
        listed = {tool.name for tool in (await viewer.list_tools()).tools}
        assert not listed & {"run", "submit", "retry", "cancel", "propose_replay"}
        assert "health" in listed
    assert len(await server[0].jobs()) == 1
