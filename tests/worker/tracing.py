"""Spans as a test reads them: kept in memory, or written to a file by a process that works: `python tracing.py …`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from standfast import Standfast
from standfast.testing import drain


@cache
def exporter() -> InMemorySpanExporter:
    """Keep the spans of this process; OpenTelemetry takes a provider once."""
    made = InMemorySpanExporter()
    export_to(made)
    return made


class Trouble(SpanProcessor):
    """A processor that is broken while a test says so."""

    broken = False

    def on_start(self, span: object, parent_context: object = None) -> None:  # noqa: ARG002 - as it is called
        """Be told of a beginning."""
        self._raise()

    def on_end(self, span: object) -> None:  # noqa: ARG002 - as it is called
        """Be told of an end."""
        self._raise()

    def _raise(self) -> None:
        if type(self).broken:
            raise RuntimeError("password=hunter2 is wrong")


def export_to(where: SpanExporter) -> None:
    """Have every span of this process written there when it ends."""
    provider = TracerProvider()
    provider.add_span_processor(Trouble())
    provider.add_span_processor(SimpleSpanProcessor(where))
    trace.set_tracer_provider(provider)


class Lines(SpanExporter):
    """Appends each span to a file, whole."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write them."""
        with self._path.open("a") as file:
            file.writelines(json.dumps(told(span)) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


def told(span: ReadableSpan) -> dict[str, object]:
    """Give what a test compares of a span, as JSON has it."""
    context = span.get_span_context()
    assert context is not None
    links = [[each.context.trace_id, each.context.span_id] for each in span.links]
    parent = None if span.parent is None else span.parent.span_id
    place = {"trace": context.trace_id, "span": context.span_id, "parent": parent, "links": links, "pid": os.getpid()}
    return {"name": span.name, "kind": span.kind.name, "attributes": dict(span.attributes or {}), **place}


async def work(url: str) -> None:
    """Do what is there, and end."""
    async with Standfast(url) as sf:

        @sf.handler("mail")
        async def mail(job: object) -> None:
            del job
            with trace.get_tracer("application").start_as_current_span("inner"):
                pass

        await drain(sf)


if __name__ == "__main__":
    export_to(Lines(sys.argv[2]))
    asyncio.run(work(sys.argv[1]))
