"""The server, put together: routes of the API, the other endpoints, and the front that protects them all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from standfast.application import Standfast
from standfast.errors import StandfastError
from standfast.server import openapi
from standfast.server.api import endpoint
from standfast.server.api_routes import ROUTES
from standfast.server.auth import Gatekeeper, HostAuth
from standfast.server.front import Front
from standfast.server.problems import Problem, of_error, unknown_route
from standfast.server.route import Route
from standfast.server.shutdown import Shutdown, UntilShutdown
from standfast.server.tracing import continued
from standfast.wings.access.words import Grant
from standfast.wings.health import metrics
from standfast.wings.ingest import routes as ingest
from standfast.wings.jobs.routes import TAKES_IN
from standfast.wings.notices.routes import Readers

if TYPE_CHECKING:
    from standfast.dashboard.site import Site
    from standfast.mcp.desk import Desk

API = "/api/v1"


class NameConvertor(PathConvertor):
    """A user-chosen name as part of a path: it matches line breaks, so that they are refused with a reason."""

    regex = r"[\s\S]*"


register_url_convertor("chosen", NameConvertor())


def address(route: Route) -> str:
    """Return the path of a route. Names that users choose, sessions included, may contain slashes."""
    path = route.path.replace("{name}", "{name:chosen}").replace("/sessions/{id}", "/sessions/{id:chosen}")
    return f"{API}{path}"


class Server:
    """An ASGI application over one Standfast. Its host opens and closes the queue."""

    def __init__(self, sf: Standfast, *, hosts: tuple[str, ...] = (), auth: HostAuth | None = None) -> None:
        self.gate = Gatekeeper(sf, auth)
        self.shutdown = Shutdown()
        self._sf = sf
        paths = [Path(address(each), endpoint(sf, self.gate, each), methods=[each.method]) for each in ROUTES]
        beside = [
            Path(f"{API}/openapi.json", openapi.served(ROUTES), methods=["GET"]),
            Path(f"{API}{ingest.PATH}", ingest.endpoint(sf), methods=["POST"]),
            Path("/metrics", metrics.endpoint(sf, self.gate), methods=["GET"]),
            Path("/healthz", _up, methods=["GET"]),
            Path("/readyz", self._ready, methods=["GET"]),
        ]
        self._desk = _desk(sf, self.gate)
        if self._desk is not None:
            beside.append(Path("/mcp", UntilShutdown(self._desk, self.shutdown)))
        self._site = _site(sf, self.gate)
        beside += self._site.paths
        handlers = {404: self._nowhere, 405: self._nowhere}
        known = (*hosts, *sf.settings.hosts)
        self.router = Starlette(routes=[*paths, *beside], exception_handlers=handlers)
        self.router.state.shutdown = self.shutdown
        self.router.state.trying = asyncio.Lock()  # policies are tried one at a time: each takes a processor
        self.router.state.messages = self._site.messages
        self.router.state.readers = Readers(self.gate, self.shutdown, sf.settings.readers)
        taking_in = {("POST", f"{API}/jobs"): endpoint(sf, self.gate, TAKES_IN)}
        straight = None if sf.tracing else taking_in  # only the long way continues a trace
        self.app: ASGIApp = Front(continued(self.router, sf.tracing), known, straight)

    async def close(self) -> None:
        """Close what serves agents and people."""
        self.shutdown.begin()
        await self._site.close()
        if self._desk is not None:
            await self._desk.close()

    async def _nowhere(self, request: Request, _error: Exception) -> Response:
        return await self._site.nowhere(request) if _for_a_person(request) else unknown_route().response()

    async def _ready(self, _: Request) -> Response:
        """Say whether work is accepted: the store answers and can be written. Without a token, that is all it says."""
        try:
            await self._sf.ready()
        except StandfastError:
            return PlainTextResponse("down", 503)
        return PlainTextResponse("up")


async def _up(_: Request) -> Response:
    return PlainTextResponse("up")


def _for_a_person(request: Request) -> bool:
    """Return whether a browser asks for a page, rather than a program for the API."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return not path.startswith(("/api/", "/mcp")) and "text/html" in request.headers.get("accept", "")


def _site(sf: Standfast, gate: Gatekeeper) -> Site:
    """Return the pages for people."""
    from standfast.dashboard.site import Site  # noqa: PLC0415 - it builds on the rest of this room

    return Site(sf, gate, ROUTES)


def _desk(sf: Standfast, gate: Gatekeeper) -> Desk | None:
    """Return the MCP endpoint at /mcp, if its extra is installed."""
    try:
        from standfast.mcp.desk import Desk  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        return None
    from standfast import __version__  # noqa: PLC0415 - read only when needed

    async def granted(scope: Scope, receive: Receive, send: Send) -> Grant | None:
        try:
            return await gate.grant(Request(scope, receive))
        except Problem as problem:
            refused = problem
        except StandfastError as error:
            refused = of_error(error)
        await refused.response()(scope, receive, send)
        return None

    return Desk(sf, granted, version=__version__)
