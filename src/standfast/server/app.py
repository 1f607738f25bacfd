"""The server, put together: routes of the API, the doors beside it, and the front they all stand behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from standfast.access import Grant
from standfast.application import Standfast
from standfast.errors import StandfastError
from standfast.server import flows, ingest, jobs, letters, openapi, overview
from standfast.server.api import endpoint
from standfast.server.auth import Gatekeeper, HostAuth
from standfast.server.front import Front
from standfast.server.problems import Problem, unknown_route
from standfast.server.routes import Route

if TYPE_CHECKING:
    from standfast.dashboard.site import Site
    from standfast.mcp.desk import Desk

API = "/api/v1"
ROUTES: tuple[Route, ...] = (*jobs.ROUTES, *letters.ROUTES, *overview.ROUTES, *flows.ROUTES)
"""Everything the API does."""


class Server:
    """An ASGI application over one Standfast. Whoever serves it opens and closes the queue."""

    def __init__(self, sf: Standfast, *, hosts: tuple[str, ...] = (), auth: HostAuth | None = None) -> None:
        self.gate = Gatekeeper(sf, auth)
        self._sf = sf
        paths = [Path(f"{API}{each.path}", endpoint(sf, self.gate, each), methods=[each.method]) for each in ROUTES]
        beside = [
            Path(f"{API}/openapi.json", openapi.served(ROUTES), methods=["GET"]),
            Path(f"{API}{ingest.PATH}", ingest.endpoint(sf), methods=["POST"]),
            Path("/healthz", _up, methods=["GET"]),
            Path("/readyz", self._ready, methods=["GET"]),
        ]
        self._desk = _desk(sf, self.gate)
        if self._desk is not None:
            beside.append(Path("/mcp", self._desk))
        self._site = _site(sf, self.gate)
        beside += self._site.paths
        handlers = {404: _nowhere, 405: _nowhere}
        known = (*hosts, *sf.settings.hosts)
        self.app: ASGIApp = Front(Starlette(routes=[*paths, *beside], exception_handlers=handlers), known)

    async def close(self) -> None:
        """Let go of what serves agents and people."""
        await self._site.close()
        if self._desk is not None:
            await self._desk.close()

    async def _ready(self, _: Request) -> Response:
        """Tell whether work is taken: the store answers and can be written. Nothing else is told without a token."""
        try:
            await self._sf.ready()
        except StandfastError:
            return PlainTextResponse("down", 503)
        return PlainTextResponse("up")


async def _up(_: Request) -> Response:
    return PlainTextResponse("up")


async def _nowhere(_: Request, _error: Exception) -> Response:
    return unknown_route().response()


def _site(sf: Standfast, gate: Gatekeeper) -> Site:
    """Give the pages for people."""
    from standfast.dashboard.site import Site  # noqa: PLC0415 - it builds on the rest of this room

    return Site(sf, gate, ROUTES)


def _desk(sf: Standfast, gate: Gatekeeper) -> Desk | None:
    """Give what serves agents at /mcp, where the extra for it is installed."""
    try:
        from standfast.mcp.desk import Desk  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        return None

    async def granted(scope: Scope, receive: Receive, send: Send) -> Grant | None:
        try:
            return await gate.grant(Request(scope, receive))
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return None

    return Desk(sf, granted, version=API)
