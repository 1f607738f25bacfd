"""What every request passes first: the right host, no page of another origin, not too large."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from standfast.ingest.sources import LARGEST_OF_GITHUB
from standfast.server.api import LARGEST_BODY, too_large
from standfast.server.problems import Problem

DELIVERIES = "/api/v1/ingest/"
LARGEST_DELIVERY = LARGEST_OF_GITHUB
"""Bytes of a webhook that may come in at all; most sources take less."""
LONGEST_LENGTH = 12
LOOPBACK = ("127.0.0.1", "localhost", "::1")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers say of our own forms that they come from nowhere
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Front:
    """The outermost layer. A name that leads here by somebody else's DNS, or a page elsewhere, gets no further."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset({*LOOPBACK, *(host.lower() for host in hosts)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._refusal(scope)
        served = self._app if problem is None else problem.response()
        await served(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Problem | None:
        shown = dict(reversed(scope["headers"]))  # of a name that comes twice the first counts, as everywhere
        host = shown.get(b"host", b"").decode("latin-1")
        if "*" not in self._hosts and _name(f"//{host}") not in self._hosts:
            hint = "Name the host in [server] hosts of standfast.toml if it is yours."
            return Problem(421, "wrong-host", "this server does not answer to that name", hint)
        origin = shown.get(b"origin")
        if origin is not None and scope["method"] not in SAFE and not _same(origin.decode("latin-1"), host):
            return Problem(403, "wrong-origin", "a page of another origin asked for this", "Use a page of this server.")
        return _size_refusal(shown.get(b"content-length"), scope["path"])


def _size_refusal(length: bytes | None, path: str) -> Problem | None:
    """Refuse what says itself that it is too large; who delivers to a source learns of its own limit there."""
    if length is None:
        return None
    largest = LARGEST_DELIVERY if DELIVERIES in path else LARGEST_BODY
    if length.isdigit() and len(length) <= LONGEST_LENGTH and int(length) <= largest:
        return None
    return too_large(largest)


@lru_cache(maxsize=64)
def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return sent
