"""OpenTelemetry's context goes through middleware to the handler, read from the real SDK: async, plain and isolated."""

from __future__ import annotations

import os

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from standfast.testing import drain
from tests.waiting import ended, job_of
from tests.worker import tracing
from tests.worker.context_app import TENANT, async_look, plain_look, register_isolated

tracer = trace.get_tracer("application")


@pytest.fixture(autouse=True)
def _fresh_spans() -> None:
    tracing.exporter().clear()


def only(name: str) -> ReadableSpan:
    """Give the one span of this test that is called so."""
    [found] = [each for each in tracing.exporter().get_finished_spans() if each.name == name]
    return found


def parent_of(span: ReadableSpan) -> int | None:
    """Give the span that another one hangs below."""
    return None if span.parent is None else span.parent.span_id


async def around(_job, call_next):
    """Stand around an attempt as an application does that traces it and knows for whom it works."""
    TENANT.set("acme")
    with tracer.start_as_current_span("in the middleware"):
        return await call_next()


@pytest.mark.parametrize("look", [async_look, plain_look], ids=["async", "plain"])
async def test_a_span_of_the_middleware_is_the_parent_of_a_span_of_the_handler(sf, look):
    sf.middleware(around)
    sf.handler("look")(look)
    job = await sf.enqueue("look")
    await drain(sf)
    outer, inner = only("in the middleware"), only("in the handler")
    assert parent_of(inner) == outer.context.span_id
    assert inner.context.trace_id == outer.context.trace_id
    seen = (await job_of(sf, job.id)).result
    assert seen == {"tenant": "acme", "span": outer.context.span_id, "pid": os.getpid()}
    assert TENANT.get() == "none"


@pytest.mark.parametrize("look", [async_look, plain_look], ids=["async", "plain"])
async def test_two_attempts_at_once_have_a_trace_each(sf, look):
    sf.middleware(around)
    sf.handler("look")(look)
    for _ in range(2):
        await sf.enqueue("look")
    await drain(sf)
    spans = tracing.exporter().get_finished_spans()
    outer = {each.context.span_id for each in spans if each.name == "in the middleware"}
    assert len(outer) == 2
    assert {parent_of(each) for each in spans if each.name == "in the handler"} == outer


@pytest.mark.parametrize("look", [async_look, plain_look], ids=["async", "plain"])
async def test_with_traces_on_the_middleware_hangs_below_the_attempt(monkeypatch, disk, look, url):
    monkeypatch.setenv("STANDFAST_OTEL", "1")
    async with type(disk)(url) as traced:
        traced.middleware(around)
        traced.handler("look")(look)
        job = await traced.enqueue("look")
        async with traced.worker():
            await ended(traced, job.id)
    attempt, outer, inner = only("process look"), only("in the middleware"), only("in the handler")
    assert [parent_of(outer), parent_of(inner)] == [attempt.context.span_id, outer.context.span_id]


async def test_an_isolated_handler_sees_nothing_of_the_middlewares_context(disk):
    """A child process has a context of its own: `isolate=True` hands on the job, and neither variables nor spans."""
    disk.middleware(around)
    register_isolated(disk)
    job = await disk.enqueue("look")
    async with disk.worker():
        seen = (await ended(disk, job.id)).result
    assert seen.pop("pid") != os.getpid()
    assert seen == {"tenant": "none", "span": None}
    assert only("in the middleware").context.is_valid
