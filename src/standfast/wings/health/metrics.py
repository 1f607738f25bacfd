"""`GET /metrics`: who may read it, and what they get; `exposition` writes the text."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.errors import StandfastError
from standfast.server.auth import Gatekeeper, check_right
from standfast.server.problems import Problem, of_error
from standfast.wings.access.words import Grant, Right
from standfast.wings.health.measures import Measures

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers of a request that came through a proxy; its address is then the proxy's."""


def endpoint(sf: Standfast, gate: Gatekeeper) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that serves the metrics."""

    async def serve(request: Request) -> Response:
        try:
            grant = await _reader(sf, gate, request)
            return _response(await sf.measures(), grant)
        except Problem as problem:
            return problem.response()
        except StandfastError as error:
            return of_error(error).response()

    return serve


async def _reader(sf: Standfast, gate: Gatekeeper, request: Request) -> Grant | None:
    """Identify the caller; None if the operator lets everyone see everything."""
    if sf.settings.metrics == "loopback" and "authorization" not in request.headers and _is_here(request):
        return None
    grant = await gate.grant(request)
    check_right(grant, Right.READ)
    return grant


def _is_here(request: Request) -> bool:
    """Return whether a request comes from this host itself, and through no proxy, which would lend it its address."""
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _response(measures: Measures, grant: Grant | None) -> Response:
    try:
        from standfast.wings.health.exposition import CONTENT_TYPE, text  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        hint = "Install it where the server runs: pip install 'standfast[server]'"
        raise Problem(501, "missing-extra", "metrics need an extra", hint) from error
    return Response(text(measures, grant), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
