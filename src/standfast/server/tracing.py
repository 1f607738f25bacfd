"""Traces that come with a request, continued: what it enqueues belongs to them."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from standfast.telemetry import Tracing

HEADER = b"traceparent"


class TraceContinuation:
    """A layer that is there only while traces are on."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request inside its caller's trace; one that names two is in none, as the standard has it."""
        given = [value for name, value in scope.get("headers", ()) if name == HEADER]
        with self._tracing.continue_trace(given[0].decode("latin-1") if len(given) == 1 else None):
            await self._app(scope, receive, send)


def continued(app: ASGIApp, tracing: Tracing | None) -> ASGIApp:
    """Put the layer around, where traces are on."""
    return app if tracing is None else TraceContinuation(app, tracing)
