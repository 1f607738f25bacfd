"""Continuation of the trace that comes with a request: jobs it enqueues belong to that trace."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from standfast.telemetry import Tracing

HEADER = b"traceparent"


class TraceContinuation:
    """A middleware that is present only while traces are on."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request inside its caller's trace; one with two headers belongs to no trace, as the standard says."""
        given = [value for name, value in scope.get("headers", ()) if name == HEADER]
        with self._tracing.continue_trace(given[0].decode("latin-1") if len(given) == 1 else None):
            await self._app(scope, receive, send)


def continued(app: ASGIApp, tracing: Tracing | None) -> ASGIApp:
    """Wrap an application in the middleware, if traces are on."""
    return app if tracing is None else TraceContinuation(app, tracing)
