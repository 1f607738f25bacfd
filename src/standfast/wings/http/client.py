"""The wire: httpx2 over sockets that lead only where a queue may call. Imported when the first request is sent."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast

import httpcore2
import httpx2

from standfast.printable import printable
from standfast.wings.http.destinations import Address, destinations
from standfast.wings.http.resolver import Resolver
from standfast.wings.http.words import HttpRequest, Reply, Route

LARGEST_BODY = 128 * 1024
"""Bytes of a reply's body that are read and kept: whatever they hold, the result they make can be stored."""
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
"""Waiting for a connection, looking up, connecting and TLS get a fifth of the time each, and at most so many seconds.

So the whole time never runs out before the request is sent: when it does, the receiver may have got it.
"""
BROKEN = (TimeoutError, httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError)
"""How a reply can end early."""

Headers = list[tuple[bytes, bytes]]


class Wire:
    """The connections of one event loop."""

    def __init__(self) -> None:
        # No cookies: one job's must not travel with the next. No proxies: the environment decides nothing here.
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx2.AsyncClient(
            transport=VettedTransport(), cookies=jar, trust_env=False, follow_redirects=False
        )
        trusted()

    async def send(self, request: HttpRequest, headers: Headers, route: Route, within: float) -> Reply:
        """Send a request and read its reply; raise unless the reply, or what came of it, says how it went."""
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
        await self._client.aclose()

    async def _exchange(
        self, request: HttpRequest, headers: Headers, route: Route, within: float, reply: Reply
    ) -> None:
        phase = _phase(within)
        async with self._client.stream(
            request.method,
            request.url,
            headers=headers,
            content=request.content,
            timeout=httpx2.Timeout(None, pool=phase, connect=phase),
            extensions={"route": route},
        ) as response:
            reply.status = response.status_code
            reply.headers = _kept_headers(response.headers)
            async with aclosing(response.aiter_raw()) as chunks:
                await _read(chunks, reply)


class VettedTransport(httpx2.AsyncBaseTransport):
    """Keeps routes apart: a connection of one queue is not another's, and what hangs holds up no other queue."""

    def __init__(self) -> None:
        self._pools: dict[Route, httpcore2.AsyncConnectionPool] = {}
        self._resolvers: dict[str, Resolver] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request over a connection of its route."""
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        extensions = dict(request.extensions)
        pool = self._pool(extensions.pop("route"))
        reply = await pool.handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=url,
                headers=request.headers.raw,
                content=request.stream,
                extensions=extensions,
            )
        )
        stream = ReplyStream(cast("AsyncIterable[bytes]", reply.stream))
        return httpx2.Response(reply.status, headers=reply.headers, stream=stream, extensions=reply.extensions)

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, route: Route) -> httpcore2.AsyncConnectionPool:
        """Give the pool of a route. It has no limit: a queue has so many requests under way as it has slots."""
        if route not in self._pools:
            resolver = self._resolvers.setdefault(route.queue, Resolver())
            self._pools[route] = httpcore2.AsyncConnectionPool(
                ssl_context=trusted(),
                max_connections=None,
                max_keepalive_connections=MOST_IDLE if route.reuse else 0,
                keepalive_expiry=KEEP_ALIVE,
                network_backend=VettedBackend(route.destinations, resolver),
            )
        return self._pools[route]


class ReplyStream(httpx2.AsyncByteStream):
    """The body of a reply on its way from the pool to the client."""

    def __init__(self, stream: AsyncIterable[bytes]) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the body piece by piece."""
        async for chunk in self._stream:
            yield chunk

    async def aclose(self) -> None:
        """Let go of the connection."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


class VettedBackend(httpcore2.AsyncNetworkBackend):
    """Looks a name up once, has every address of it vetted, and connects to one of those very addresses.

    Above here the name stays what it was: for the Host header, for TLS and its certificate.
    """

    def __init__(self, entries: tuple[str, ...], resolver: Resolver) -> None:
        self._destinations = destinations(entries)
        self._resolver = resolver
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface has it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of the host that answers."""
        addresses = await self._vetted(host, timeout)
        share = None if timeout is None else timeout / len(addresses)
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._sockets.connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore2.ConnectError(f"{host} has no address")

    async def _vetted(self, host: str, within: float | None) -> list[Address]:
        try:
            async with asyncio.timeout(within):
                addresses = await self._resolver.look_up(host)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host} could not be looked up in time") from error
        self._destinations.vet(host, addresses)
        return addresses[:MOST_ADDRESSES]


@cache
def trusted() -> ssl.SSLContext:
    """Give the certificates this machine trusts; reading them takes a while."""
    return httpcore2.default_ssl_context()


def _phase(within: float) -> float:
    return min(LONGEST_PHASE, within / PHASES)


def _words(error: BaseException | None, within: float) -> str:
    """Give what an error says, or else what it wraps: a reset says nothing until the system's own error is found."""
    if isinstance(error, TimeoutError):
        return f"no whole reply within {within:g} s"
    if isinstance(error, httpcore2.TimeoutException):  # what it wraps is how it was stopped
        return str(error) or f"no connection within {_phase(within):g} s"
    while error is not None and not str(error):
        error = error.__cause__ or error.__context__
    return str(error or "the connection broke")


def _kept_headers(headers: httpx2.Headers) -> dict[str, str]:
    return {name: printable(headers[name][:LONGEST_HEADER]) for name in KEPT_HEADERS if name in headers}


async def _read(chunks: AsyncIterator[bytes], reply: Reply) -> None:
    async for chunk in chunks:
        reply.body += chunk
        if len(reply.body) > LARGEST_BODY:
            reply.body, reply.truncated = reply.body[:LARGEST_BODY], True
            return
