"""A trace that comes with a request goes on in what the request enqueues, if it can be understood."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from opentelemetry import trace

from standfast.server.app import Server
from standfast.testing import memory
from standfast.testing.kit import InMemory
from tests.core.deliveries import SECRET, encoded, event, github, pull_request
from tests.worker import tracing

WHOLE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{WHOLE}-{SPAN}-01"
BODY = encoded(event("opened", pull_request=pull_request()))
TOML = '[ingest.github]\nsecret_env = "HOOK"\nlogin = "bob"\n'


@pytest.fixture
async def sf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InMemory]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text(TOML)
    monkeypatch.setenv("HOOK", SECRET)
    monkeypatch.setenv("STANDFAST_OTEL", "1")
    tracing.exporter().clear()
    async with memory() as made:
        made.queue("mail")
        yield made


async def post(sf: InMemory, path: str, body: bytes, headers: list[tuple[str, str]]) -> tuple[int, int | None]:
    """Ask; give the trace that the enqueue was in, and its parent there."""
    token = (await sf.tokens.create("maker", person="zoe", role="producer"))["token"]
    shown = [("Authorization", f"Bearer {token}"), *headers]
    transport = httpx2.ASGITransport(app=Server(sf).app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        answer = await client.post(path, content=body, headers=shown)
    assert answer.status_code == 201, answer.text
    [span] = [each for each in tracing.exporter().get_finished_spans() if each.name.startswith("enqueue")]
    return span.context.trace_id, None if span.parent is None else span.parent.span_id


@pytest.mark.parametrize("path", ["/jobs", "/ingest/github"])
async def test_a_trace_that_came_goes_on(sf: InMemory, path: str) -> None:
    """A webhook's as well: its job belongs to what sent it."""
    body, headers = (b'{"queue": "mail"}', {}) if path == "/jobs" else (BODY, github("pull_request", BODY))
    found = await post(sf, path, body, [*headers.items(), ("traceparent", GIVEN)])
    assert found == (int(WHOLE, 16), int(SPAN, 16))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", f"00-{'0' * 32}-{SPAN}-01")],
        [("traceparent", "<script>alert(1)</script>")],
        [("traceparent", GIVEN), ("traceparent", GIVEN)],  # whoever sends two is not believed, as the standard has it
    ],
)
async def test_what_cannot_be_understood_is_left_out(sf: InMemory, headers: list[tuple[str, str]]) -> None:
    found, parent = await post(sf, "/jobs", b'{"queue": "mail"}', headers)
    assert (found != int(WHOLE, 16), parent) == (True, None)


async def test_a_span_of_the_application_around_it_stays_the_parent(sf: InMemory) -> None:
    """Whoever mounts the server may trace requests itself, and has read the header already."""
    with trace.get_tracer("application").start_as_current_span("GET /") as outer:
        found = await post(sf, "/jobs", b'{"queue": "mail"}', [("traceparent", GIVEN)])
    assert found == (outer.get_span_context().trace_id, outer.get_span_context().span_id)


async def test_while_off_no_layer_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDFAST_OTEL", "0")
    async with memory() as sf:
        assert sf.tracing is None
        assert "Continued" not in type(Server(sf).app._app).__name__  # type: ignore[attr-defined]  # noqa: SLF001
