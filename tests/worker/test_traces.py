"""Traces, read from a real OpenTelemetry: each attempt is linked to whoever asked for its job, across the store."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from standfast import Permanent, Standfast, Transient, no_backoff
from standfast.cli.logs import JsonLines
from standfast.lifecycle import State
from standfast.spine import intake
from standfast.telemetry import current
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from standfast.wings.records import reads
from tests.waiting import job_of
from tests.warm import run_warm
from tests.worker import tracing
from tests.worker.inside import store_of
from tests.worker.processes import environment

SHOWING = """
[commands.show]
argv = ["printenv", "TRACEPARENT"]
[queues.shell]
command = "show"
"""
tracer = trace.get_tracer("application")


class Spans:
    """What was exported since the test began."""

    def __init__(self) -> None:
        self._kept = tracing.exporter()
        self._kept.clear()

    def named(self, beginning: str) -> list[ReadableSpan]:
        """Give the spans that are called so, in the order they ended."""
        return [each for each in self._kept.get_finished_spans() if each.name.startswith(beginning)]

    def one(self, beginning: str) -> ReadableSpan:
        """Give the only one that is called so."""
        [found] = self.named(beginning)
        return found


@pytest.fixture(autouse=True)
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Switch traces on; the stores of these tests are made after that."""
    monkeypatch.setenv("STANDFAST_OTEL", "1")
    return Spans()


def place(span: ReadableSpan) -> tuple[int, int]:
    """Give the trace a span is in, and its own name there."""
    return span.context.trace_id, span.context.span_id


def traceparent(span: ReadableSpan) -> str:
    """Give a span as it is handed on."""
    found = span.context
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(each.context.trace_id, each.context.span_id) for each in span.links]


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_an_attempt_is_a_trace_of_its_own_linked_to_who_asked(sf: InMemory, spans: Spans) -> None:
    inside: list[tuple[str | None, int]] = []

    @sf.handler("mail")
    async def mail(_job: object) -> None:
        inside.append((current(), trace.get_current_span().get_span_context().span_id))

    with tracer.start_as_current_span("request") as request:
        receipt = await sf.enqueue("mail", 1)
        assert trace.get_current_span() is request
    await drain(sf)
    asked, ran = spans.one("enqueue"), spans.one("process")
    assert asked.parent is not None
    assert (asked.parent.span_id, asked.kind) == (request.get_span_context().span_id, trace.SpanKind.PRODUCER)
    assert (linked(ran), ran.parent, ran.kind) == ([place(asked)], None, trace.SpanKind.CONSUMER)
    assert ran.context.trace_id != asked.context.trace_id
    assert inside == [(traceparent(ran), ran.context.span_id)]
    assert (asked.name, ran.name) == ("enqueue mail", "process mail")
    assert said(asked)["messaging.message.id"] == said(ran)["messaging.message.id"] == receipt.id
    assert (said(asked)["standfast.outcome"], said(ran)["standfast.outcome"]) == ("accepted", "completed")
    assert (said(ran)["standfast.attempt"], said(ran)["messaging.destination.name"]) == (1, "mail")
    assert ran.status.is_ok


async def test_what_fails_is_told_without_its_secrets_and_every_repeat_is_linked_alike(
    sf: InMemory, spans: Spans
) -> None:
    """Also the attempts after a replay: it is the same job, asked for by the same."""
    sf.queue("mail", attempts=2, backoff=no_backoff())

    @sf.handler("mail")
    def mail(job: Any) -> None:  # plain: its thread belongs to the trace too
        assert trace.get_current_span().get_span_context().is_valid
        if job.attempt < 3:
            raise Transient("refused: password=hunter2")

    job = str((await sf.enqueue("mail", 1)).id)
    await drain(sf)
    assert (await job_of(sf, job)).state == State.DEAD
    await sf.dead_letters.replay(job, by="bea")
    await drain(sf)
    attempts = spans.named("process")
    assert [said(each)["standfast.outcome"] for each in attempts] == ["retry", "dead", "completed"]
    assert {tuple(linked(each)) for each in attempts} == {(place(spans.one("enqueue")),)}
    assert len({each.context.trace_id for each in attempts}) == 3
    for each in attempts[:2]:
        assert not each.status.is_ok
        assert (said(each)["standfast.class"], said(each)["standfast.landed"]) == ("transient", "no")
        [event] = each.events
        told = dict(event.attributes or {})
        assert (event.name, told["exception.type"]) == ("exception", "Transient")
        assert "in mail" in str(told["exception.stacktrace"])
        assert "hunter2" not in str(told)
        assert "hunter2" not in str(each.status.description)


async def test_an_attempt_that_is_cut_off_ends_its_span(sf: InMemory, spans: Spans) -> None:
    """Its outcome says why; nothing was raised by anybody."""

    @sf.handler("slow", timeout=0.01)
    async def slow(_job: object) -> None:
        await asyncio.Event().wait()

    await sf.enqueue("slow", 1, attempts=1)
    await drain(sf)
    ran = spans.one("process")
    assert (said(ran)["standfast.outcome"], said(ran)["standfast.reason_code"]) == ("dead", "timeout")
    assert not ran.events


async def many(sf: Standfast) -> None:
    await sf.enqueue_many("mail", [1, 2])


async def blocking(sf: Standfast) -> None:
    await asyncio.to_thread(sf.enqueue_sync, "mail", 1)


async def called(sf: Standfast) -> None:
    await sf.run("mail", 1)


async def submitted(sf: Standfast) -> None:
    await sf.submit("mail", 1)


async def handed_over(sf: Standfast) -> None:
    await sf.hand_over("mail", 1, Transient("no"))


async def from_outside(sf: Standfast) -> None:
    await sf.ingest("mail", 1)


async def flowing(sf: Standfast) -> None:
    flow = sf.workflow("flow")
    flow.step("second", "mail", after=flow.step("first", "mail"))
    await flow.start()


async def coalesced(sf: Standfast) -> None:
    """Fold a job into one that waits, which makes that the newcomer's."""
    with tracer.start_as_current_span("before"):
        await sf.enqueue("mail", 0, thread_key="t", coalesce="latest")
    tracing.exporter().clear()
    await sf.enqueue("mail", 1, thread_key="t", coalesce="latest")


async def amended(sf: Standfast) -> None:
    job = str((await sf.enqueue("mail", "die")).id)
    await drain(sf)
    await sf.dead_letters.amend(job, 1, by="bea", reason="mended")
    await sf.dead_letters.replay(job, by="bea")


async def scheduled(sf: Standfast) -> None:
    assert isinstance(sf, InMemory)
    await sf.schedules.add("nightly", "mail", 1, every=60)
    sf.clock.advance(61)


@pytest.mark.parametrize(
    "verb",
    [many, blocking, called, submitted, handed_over, from_outside, flowing, coalesced, amended, scheduled],
    ids=lambda verb: verb.__name__,
)
async def test_whichever_way_a_job_comes_in_its_attempts_are_linked(
    sf: InMemory, spans: Spans, verb: Callable[[Standfast], Awaitable[None]]
) -> None:
    """The attempt of a call that is run here and now as well."""
    sf.queue("mail", backoff=no_backoff())

    @sf.handler("mail")
    async def mail(job: Any) -> None:
        if job.payload == "die":
            raise Permanent("no")

    with tracer.start_as_current_span("request") as request:
        await verb(sf)
    with tracer.start_as_current_span("start"):  # whoever starts a worker asked for none of its jobs
        await drain(sf)
    asked, ran = spans.one("enqueue"), spans.named("process")
    assert {each.parent for each in ran} == {None}
    assert {tuple(linked(each)) for each in ran} == {(place(asked),)}
    if verb is scheduled:  # asked for by the clock, whoever was here when it was put in force
        assert asked.parent is None
    else:
        assert asked.parent is not None
        assert asked.parent.span_id == request.get_span_context().span_id


async def test_a_job_in_a_transaction_of_the_callers_carries_its_trace(tmp_path: Path, spans: Spans) -> None:
    """Through the outbox as well, where it is a job only later."""
    theirs = tmp_path / "theirs.db"
    async with memory() as sf:
        sf.handler("mail")(lambda _job: None)
        connection = sqlite3.connect(theirs)
        with connection:
            receipt = await sf.enqueue("mail", 1, tx=connection)
        connection.close()
        assert receipt.outcome == "deferred"
        await sf.outbox(lambda: sqlite3.connect(theirs)).relay()
        await drain(sf)
    assert linked(spans.one("process")) == [place(spans.one("enqueue"))]


async def test_what_is_refused_is_told_on_its_span(sf: InMemory, spans: Spans) -> None:
    sf.queue("narrow", max_depth=1)
    await sf.enqueue("narrow", 1)
    with pytest.raises(Exception, match="max_depth"):
        await sf.enqueue("narrow", 2)
    taken, refused = spans.named("enqueue")
    assert taken.status.is_ok
    assert (refused.status.description, said(refused)["error.type"]) == ("Backpressure", "Backpressure")


async def test_who_is_called_gets_the_attempts_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spans: Spans
) -> None:
    """A receiver as a header, unless the caller gave one; a program in its environment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text(SHOWING)
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async with memory() as sf, await asyncio.start_server(answer, "127.0.0.1", 0) as receiver:
        sf.queue("web", destinations=["127.0.0.1"])
        url = f"http://127.0.0.1:{receiver.sockets[0].getsockname()[1]}/"
        shell = str((await sf.enqueue("shell")).id)
        await drain(sf)
        for headers in ({}, {"Traceparent": "mine"}):
            await sf.enqueue_http("web", "GET", url, headers=headers)
            await drain(sf)
        result = (await job_of(sf, shell)).result
    program, request, _ = map(traceparent, spans.named("process"))
    assert result["stdout"].strip() == program
    assert f"traceparent: {request}\r\n" in heads[0]
    assert heads[1].count("traceparent:") == 1
    assert "traceparent: mine" in heads[1]


async def test_log_lines_carry_the_attempts_trace(sf: InMemory, spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    """What a handler logs, and what a worker says of each of the attempts whose ends it writes together."""
    log = logging.getLogger("application")

    @sf.handler("mail")
    async def mail(job: Any) -> None:
        log.warning("at %s", job.id)
        raise Permanent("no")

    caplog.handler.setFormatter(JsonLines())
    ids = [str(each.id) for each in await sf.enqueue_many("mail", [1, 2, 3])]
    await drain(sf)
    log.warning("outside")
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    traces = {said(each)["messaging.message.id"]: f"{each.context.trace_id:032x}" for each in spans.named("process")}
    for job in ids:
        about = [line for line in lines if job in line["message"]]
        assert [line["trace_id"] for line in about] == [traces[job]] * 2
    assert "trace_id" not in lines[-1]


async def test_a_trace_is_never_worth_a_job(
    sf: InMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a processor of the application's raises, at the beginning of a span or at its end."""

    @sf.handler("mail")
    async def mail(job: Any) -> Any:
        monkeypatch.setattr(tracing.Trouble, "broken", True)
        return job.payload

    first = await sf.enqueue("mail", 1)
    await drain(sf)  # broken when its span ends
    assert caplog.text.count("its work goes on") == 1
    second = await sf.enqueue("mail", 2)
    await drain(sf)
    assert [(await job_of(sf, each.id)).result for each in (first, second)] == [1, 2]
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("stored", ["", "00-nothing", "x" * 300])
async def test_what_was_stored_amiss_links_nothing(sf: InMemory, spans: Spans, stored: str) -> None:
    """A row that somebody wrote into is no reason not to run a job."""
    sf.handler("mail")(lambda job: job.payload)
    [job] = sf._acceptor.jobs("mail", (1,))  # noqa: SLF001
    details = msgspec.json.encode({"requester": "zoe", "trace": stored}).decode()
    await store_of(sf).write_all(intake.enqueue, [msgspec.structs.replace(job, details=details)])
    await drain(sf)
    assert (await job_of(sf, job.id)).result == 1
    assert linked(spans.one("process")) == []


async def test_across_two_processes_the_trace_is_followed(disk: Standfast, url: str, tmp_path: Path) -> None:
    """One asks, another works: only the store is between them."""
    with tracer.start_as_current_span("request"):
        receipt = await disk.enqueue("mail", 1)
    await disk.close()
    asked = tracing.told(tracing.exporter().get_finished_spans()[0])
    written = tmp_path / "spans"
    child = [sys.executable, str(Path(tracing.__file__)), url, str(written)]
    await asyncio.to_thread(run_warm, child, env=environment(), check=True)
    inner, ran = (json.loads(line) for line in written.read_text().splitlines())
    assert (asked["name"], ran["name"], ran["kind"]) == ("enqueue mail", "process mail", "CONSUMER")
    assert ran["links"] == [[asked["trace"], asked["span"]]]
    assert (inner["name"], inner["parent"], inner["trace"]) == ("inner", ran["span"], ran["trace"])
    assert ran["attributes"]["messaging.message.id"] == receipt.id
    assert ran["pid"] != asked["pid"]


async def test_while_off_nothing_is_carried(monkeypatch: pytest.MonkeyPatch, spans: Spans) -> None:
    monkeypatch.setenv("STANDFAST_OTEL", "0")
    async with memory() as sf:
        sf.handler("mail")(lambda _job: current())
        with tracer.start_as_current_span("request"):
            job = str((await sf.enqueue("mail", 1)).id)
        record = await store_of(sf).read(reads.job(job, store_of(sf).boot()))
        assert record is not None
        assert "trace" not in record.row.details
        await drain(sf)
        assert (await job_of(sf, job)).result is None
    assert spans.named("enqueue") + spans.named("process") == []
