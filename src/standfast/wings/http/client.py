"""The wire: HTTP over sockets that lead only where a queue may call. Imported when the first request is sent."""

from __future__ import annotations

import asyncio
import os.path
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import cast

import h11

from standfast.printable import printable
from standfast.wings.http.broken import ConnectTimeout, WireError
from standfast.wings.http.destinations import destinations
from standfast.wings.http.http_connection import Connection, Headers, Origin
from standfast.wings.http.resolver import Resolver
from standfast.wings.http.words import HttpRequest, Reply, Route

LARGEST_BODY = 128 * 1024
"""Bytes of a reply's body that are read and kept: the result made of them can be stored, whatever they are."""
LONGEST_HEADER = 1000
KEPT_HEADERS = (
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "location",
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-request-id",
)

MOST_IDLE = 32
KEEP_ALIVE = 5.0
MOST_ADDRESSES = 4
"""How many addresses of a host are tried, one after the other."""

PHASES = 5
LONGEST_PHASE = 10.0
"""Waiting for a connection, lookup, connecting and TLS get a fifth of the time each, but at most so many seconds.

So the whole time never runs out before the request is sent; when it does run out, the receiver may have got it.
"""
BROKEN = (TimeoutError, WireError)
"""How a reply can end early."""
AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
)
"""Where Linux keeps trusted certificates, if OpenSSL was built to look elsewhere."""


class Wire:
    """The connections of one event loop. No cookies, no redirects, and no proxies, not even from the environment."""

    def __init__(self) -> None:
        self._idle: dict[tuple[Route, Origin], list[Connection]] = {}
        self._resolvers: dict[str, Resolver] = {}
        trusted()

    async def send(self, request: HttpRequest, headers: Headers, route: Route, within: float) -> Reply:
        """Send a request and read its reply; raise, unless the reply, even an incomplete one, says how it went."""
        reply = Reply()
        try:
            async with asyncio.timeout(within):
                await self._exchange(request, headers, route, within, reply)
        except BROKEN as error:
            if reply.refuses:
                return reply
            raise type(error)(_words(error, within)) from error
        return reply

    async def close(self) -> None:
        """Close every connection."""
        while self._idle:
            _, connections = self._idle.popitem()
            await asyncio.gather(*(each.wait_closed() for each in connections))

    async def _exchange(
        self, request: HttpRequest, headers: Headers, route: Route, within: float, reply: Reply
    ) -> None:
        origin = Origin.of(request.url)
        connection = self._kept(route, origin) or await self._opened(route, origin, _phase(within))
        with connection.aborted_on_failure():
            await connection.send(request, headers, origin)
            head = await connection.head()
            reply.status, reply.headers = head.status_code, _kept_headers(head)
            async with aclosing(connection.body()) as chunks:
                await _read(chunks, reply)
        self._keep(route, origin, connection)

    def _kept(self, route: Route, origin: Origin) -> Connection | None:
        """Return an idle connection of this route. Connections of one queue are never used for another."""
        waiting, oldest = self._idle.get((route, origin), []), time.monotonic() - KEEP_ALIVE
        while waiting:
            connection = waiting.pop()
            if connection.idle_since > oldest and connection.is_open():
                return connection
            connection.close()
        return None

    def _keep(self, route: Route, origin: Origin, connection: Connection) -> None:
        """Keep a connection for the next request, if its route may reuse one and there are not many already."""
        waiting = self._idle.setdefault((route, origin), []) if route.reuse else []
        if not route.reuse or len(waiting) >= MOST_IDLE or not connection.is_reusable():
            connection.close()
            return
        connection.idle_since = time.monotonic()
        waiting.append(connection)

    async def _opened(self, route: Route, origin: Origin, phase: float) -> Connection:
        """Look the name up once, have all its addresses vetted, and connect to one of these very addresses.

        Everything above still uses the name: the Host header, TLS and its certificate.
        """
        resolver = self._resolvers.setdefault(route.queue, Resolver())
        try:
            async with asyncio.timeout(phase):
                addresses = await resolver.look_up(origin.host)
        except TimeoutError as error:
            raise ConnectTimeout(f"{origin.host} could not be looked up in time") from error
        destinations(route.destinations).vet(origin.host, addresses)
        return await Connection.open(origin, addresses[:MOST_ADDRESSES], trusted(), phase)


@cache
def trusted() -> ssl.SSLContext:
    """Return a TLS context with the certificates this machine trusts; reading them takes a while."""
    if sys.platform in {"darwin", "win32"}:
        import truststore  # noqa: PLC0415 - only there is it installed

        return cast("ssl.SSLContext", truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_default_verify_paths()  # SSL_CERT_FILE and SSL_CERT_DIR, too
    paths = ssl.get_default_verify_paths()
    found = next(filter(os.path.isfile, AUTHORITIES), None)
    if found is not None and not (paths.cafile or paths.capath):
        context.load_verify_locations(found)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _phase(within: float) -> float:
    return min(LONGEST_PHASE, within / PHASES)


def _words(error: BaseException | None, within: float) -> str:
    """Return an error's text, or that of an error it wraps: a reset says nothing, the system's own error does."""
    if isinstance(error, TimeoutError):
        return f"no whole reply within {within:g} s"
    if isinstance(error, ConnectTimeout):  # its cause is only how it was stopped
        return str(error) or f"no connection within {_phase(within):g} s"
    while error is not None and not str(error):
        error = error.__cause__ or error.__context__
    return str(error or "the connection broke")


def _kept_headers(head: h11.Response) -> dict[str, str]:
    """Return the headers that are kept; a repeated header becomes one, its values in their order."""
    kept: dict[str, str] = {}
    for raw, value in head.headers:
        name = raw.decode("ascii")
        if name in KEPT_HEADERS:
            kept[name] = ", ".join(filter(None, (kept.get(name), value.decode("latin-1"))))
    return {name: printable(value[:LONGEST_HEADER]) for name, value in kept.items()}


async def _read(chunks: AsyncIterator[bytes], reply: Reply) -> None:
    async for chunk in chunks:
        reply.body += chunk
        if len(reply.body) > LARGEST_BODY:
            reply.body, reply.truncated = reply.body[:LARGEST_BODY], True
            return
