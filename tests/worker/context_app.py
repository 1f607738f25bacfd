"""A handler that tells what it sees of the context around it: in the event loop, in a thread, in a child process."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace

from standfast import Standfast

TENANT: ContextVar[str] = ContextVar("TENANT", default="none")


def seen() -> dict[str, Any]:
    """Start a span of the handler's own; tell where this runs, and what of the middleware is there."""
    around = trace.get_current_span().get_span_context()
    with trace.get_tracer("application").start_as_current_span("in the handler"):
        return {"tenant": TENANT.get(), "span": around.span_id if around.is_valid else None, "pid": os.getpid()}


async def async_look(_job: Any) -> dict[str, Any]:
    """Look in the event loop."""
    return seen()


def plain_look(_job: Any) -> dict[str, Any]:
    """Look in a thread, or where this is isolated in a child process."""
    return seen()


def register_isolated(sf: Standfast) -> None:
    """Declare the plain handler with a process of its own, which imports it from here."""
    sf.handler("look", isolate=True)(plain_look)


sf = Standfast()
register_isolated(sf)
