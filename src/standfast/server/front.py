"""The checks that every request passes first: the right host, no page of another origin, not too large."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from standfast.server.api import LARGEST_BODY, LARGEST_BULK, too_large
from standfast.server.origin import SAFE, is_foreign, wrong_origin
from standfast.server.problems import Problem
from standfast.server.request_headers import headers
from standfast.wings.ingest.sources import LARGEST_OF_GITHUB

DELIVERIES = "/api/v1/ingest/"
BULK = "/api/v1/jobs:bulk"
LARGEST_DELIVERY = LARGEST_OF_GITHUB
"""The largest webhook body that is let in at all, in bytes; most sources accept less."""
PROBES = frozenset({"/healthz", "/readyz"})
"""Probes of whatever keeps the server running, at any address it has there; they answer only up or down."""
ECHOED = frozenset({"TRACE", "TRACK", "CONNECT"})
"""Methods that echo a request, or lead elsewhere: no route has them."""
ALLOWED = {"Allow": "GET, HEAD, POST, DELETE"}
SAID_ONCE = frozenset({b"host", b"authorization", b"idempotency-key"})
"""Headers that are ambiguous when sent twice: a proxy may have read the other copy."""
LONGEST_LENGTH = 12
LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers send our own forms with the origin "null"
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


Address = tuple[str, str]
"""A method and a path."""
Serves = Callable[[Request], Awaitable[Response]]


class Front:
    """The outermost layer. A foreign host name that points here, or a page of another site, gets no further.

    The most frequent requests go `straight` to their endpoint, without the search through all routes. If the server
    is mounted into another application, its paths differ, and all requests take the long way.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], straight: Mapping[Address, Serves] | None = None) -> None:
        self._app = app
        self._straight = straight or {}
        self._hosts = frozenset({*LOOPBACK, *(host.lower() for host in hosts)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._refusal(scope)
        straight = self._straight.get((scope["method"], scope["path"]))
        if problem is None and straight is not None:
            response = await straight(Request(scope, receive, send))
            response.raw_headers.extend(HEADERS)
            await response(scope, receive, send)
            return
        served = self._app if problem is None else problem.response()
        await served(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Problem | None:
        if scope["method"] in ECHOED:
            return Problem(405, "method-not-allowed", "this method is not served", "Use another.", headers=ALLOWED)
        shown = headers(scope)
        if len(shown) < len(scope["headers"]) and (twice := _said_twice(scope)):
            detail = f"the request has more than one {twice} header"
            return Problem(400, "repeated-header", detail, "Send it once; nothing was changed.")
        if not self._answers_to(shown.get(b"host", b"").decode("latin-1")) and _path(scope) not in PROBES:
            hint = "Name the host in [server] hosts of standfast.toml if it is yours."
            return Problem(421, "wrong-host", "this server does not answer to that name", hint)
        if scope["method"] not in SAFE and is_foreign(shown):
            return wrong_origin()
        return _size_refusal(shown.get(b"content-length"), scope["path"])

    def _answers_to(self, host: str) -> bool:
        return "*" in self._hosts or _name(f"//{host}") in self._hosts


def _path(scope: Scope) -> str:
    """Return the path as this server names it, even if it is mounted into another application."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _said_twice(scope: Scope) -> str | None:
    """Return a header that occurs twice and must not."""
    names = [name for name, _ in scope["headers"] if name in SAID_ONCE]
    return next((name.decode() for name in names if names.count(name) > 1), None)


def _size_refusal(length: bytes | None, path: str) -> Problem | None:
    """Refuse a body whose declared length is too large; a webhook source's own limit is checked later."""
    if length is None:
        return None
    largest = LARGEST_DELIVERY if DELIVERIES in path else LARGEST_BULK if path.endswith(BULK) else LARGEST_BODY
    if length.isdigit() and len(length) <= LONGEST_LENGTH and int(length) <= largest:
        return None
    return too_large(largest)


@lru_cache(maxsize=64)
def _name(address: str) -> str | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return parts.hostname if f"//{parts.netloc}" == address and "@" not in address else None


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return sent
