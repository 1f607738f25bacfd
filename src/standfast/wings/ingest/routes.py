"""Webhooks into jobs: the routes that need no token, because each delivery is signed."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.errors import ConfigurationError
from standfast.server.api import ANSWERED, GONE, checked_path, whole_body
from standfast.server.problems import RETRY_AFTER, Problem
from standfast.wings.ingest.sources import Source, source
from standfast.wings.ingest.verbs import receive, refused_unread

PATH = "/ingest/{source}"
AGAIN = frozenset({429, 503, 507})
"""The statuses after which a sender may repeat a delivery later."""
REFUSED = 400


def endpoint(sf: Standfast) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that takes deliveries, of GitHub and of every other source in the settings."""

    async def deliver(request: Request) -> Response:
        try:
            return await _delivered(sf, request)
        except Problem as problem:
            return problem.response()
        except ClientDisconnect:
            return Response(status_code=GONE)  # the sender is gone

    return deliver


async def _delivered(sf: Standfast, request: Request) -> Response:
    name = checked_path(request)["source"]
    found = _expected(sf, name)
    shown = request.headers.items()
    early = None if found is None else refused_unread(sf, found, shown)
    raw = b"" if found is None or early is not None else await whole_body(request, found.largest)
    status, answer = early or await receive(sf, name, shown, raw)
    headers = RETRY_AFTER if status in AGAIN else {}
    if status >= REFUSED and "detail" in answer:
        raise Problem(status, "delivery-refused", answer["detail"], answer["hint"], headers=headers)
    return Response(msgspec.json.encode(answer), status, {**ANSWERED, **headers}, media_type="application/json")


def _expected(sf: Standfast, name: str) -> Source | None:
    """Find the source of a delivery; the body of an unexpected one is not read."""
    try:
        return source(name, sf.settings.ingest, os.environ)
    except ConfigurationError:
        return None
