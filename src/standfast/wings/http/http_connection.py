"""One HTTP/1.1 connection: asyncio moves the bytes, h11 knows what they mean."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from selectors import EVENT_READ, DefaultSelector
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import h11

from standfast.wings.http.broken import ConnectError, ConnectTimeout, NetworkError, ProtocolError
from standfast.wings.http.destinations import Address
from standfast.wings.http.words import USUAL_PORTS, HttpRequest

Headers = list[tuple[bytes, bytes]]
CHUNK = 64 * 1024
LARGEST_HEAD = 100 * 1024
"""The most bytes in the status line and headers of a reply."""
PATH_SAFE = "/%:@!$&'()*+,;=~[]|^\\"
QUERY_SAFE = f"{PATH_SAFE}?`{{}}"
CLOSING_SECONDS = 1.0


class Origin(NamedTuple):
    """The receiver of a request."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Read the receiver from a URL that was checked."""
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or USUAL_PORTS[parts.scheme])

    @property
    def name(self) -> str:
        """The Host header: without the port if it is the scheme's usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == USUAL_PORTS[self.scheme] else f"{host}:{self.port}"


class Connection:
    """A connection, its protocol state, and since when it has been idle."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self.idle_since = 0.0

    @classmethod
    async def open(cls, origin: Origin, addresses: Sequence[Address], tls: ssl.SSLContext, phase: float) -> Connection:
        """Connect to the first address that answers, and verify who it is if the scheme is https."""
        made = cls(*await _connected(addresses, origin.port, phase / len(addresses)))
        if origin.scheme == "https":
            await made._secure(origin.host, tls, phase)
        return made

    async def _secure(self, host: str, tls: ssl.SSLContext, phase: float) -> None:
        with self.aborted_on_failure():
            try:
                async with asyncio.timeout(phase):
                    await self._writer.start_tls(tls, server_hostname=host)
            except TimeoutError as error:
                raise ConnectTimeout from error
            except OSError as error:  # including a certificate that does not fit
                raise ConnectError(str(error)) from error

    async def send(self, request: HttpRequest, headers: Headers, origin: Origin) -> None:
        """Write a request. If the receiver stops reading it, it may have said why: its reply is read all the same."""
        head = h11.Request(
            method=request.method, target=target_of(request.url), headers=_all_headers(request, headers, origin)
        )
        parts = [self._state.send(head), request.content and self._state.send(h11.Data(data=request.content))]
        parts.append(self._state.send(h11.EndOfMessage()))
        with suppress(OSError):
            self._writer.write(b"".join(part for part in parts if part))
            await self._writer.drain()

    async def head(self) -> h11.Response:
        """Read the status and the headers of the reply; informational responses are skipped."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Read the body piece by piece."""
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    async def _event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        try:
            while (event := self._state.next_event()) is h11.NEED_DATA:
                self._state.receive_data(await self._received())
        except h11.RemoteProtocolError as error:
            raise ProtocolError(str(error)) from error
        return event

    async def _received(self) -> bytes:
        try:
            data = await self._reader.read(CHUNK)
        except OSError as error:
            raise NetworkError(str(error)) from error
        if not data and self._state.their_state is h11.SEND_RESPONSE:
            raise ProtocolError("the receiver closed the connection without a reply")
        return data

    def is_reusable(self) -> bool:
        """Make it ready for another request, if both sides are done and keep it open; return whether they are."""
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
            return True
        return False

    def is_open(self) -> bool:
        """Return whether nothing came, and nothing ended, while it was idle: the loop may not have noticed yet."""
        if self._reader.at_eof() or self._writer.is_closing():
            return False
        with DefaultSelector() as selector:
            selector.register(self._writer.get_extra_info("socket").fileno(), EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        """Close it."""
        self._writer.close()

    def abort(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self._writer.transport.abort()

    @contextmanager
    def aborted_on_failure(self) -> Iterator[None]:
        """Abort it if the work inside fails or is cancelled: after half a message it fits no other request."""
        with ExitStack() as undo:
            undo.callback(self.abort)
            yield
            undo.pop_all()

    async def wait_closed(self) -> None:
        """Close it, and give it a moment to end in order."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._writer.wait_closed()


async def _connected(
    addresses: Sequence[Address], port: int, share: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    failed: ConnectError | None = None
    for address in addresses:
        try:
            async with asyncio.timeout(share):
                return await asyncio.open_connection(str(address), port)
        except TimeoutError as error:
            failed = ConnectTimeout()
            failed.__cause__ = error
        except OSError as error:
            failed = ConnectError(str(error))
            failed.__cause__ = error
    raise failed or ConnectError("the host has no address")


def target_of(url: str) -> str:
    """Return the target for the request line: the path and the query, encoded where they are not yet."""
    parts = urlsplit(url)
    path = quote(_without_dots(parts.path), safe=PATH_SAFE) or "/"
    return (
        f"{path}?{quote(parts.query, safe=QUERY_SAFE)}" if parts.query or url.partition("#")[0].endswith("?") else path
    )


def _without_dots(path: str) -> str:
    """Resolve `.` and `..`, as every client does: a receiver must not have to guess what the URL means."""
    if "/." not in path:
        return path
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            kept = kept[: max(1, len(kept) - 1)]
        elif part != ".":
            kept.append(part)
    return "/".join(kept)


def _all_headers(request: HttpRequest, headers: Headers, origin: Origin) -> Headers:
    """Add the headers that every request has. A method that usually has a body says so if there is none."""
    given = {name.lower() for name, _ in headers}
    found = [(b"Host", origin.name.encode()), *([] if b"accept" in given else [(b"Accept", b"*/*")])]
    found += [(b"Connection", b"keep-alive"), *headers]
    if request.content is not None or request.method in {"PATCH", "POST", "PUT"}:
        found.append((b"Content-Length", str(len(request.content or b"")).encode()))
    return found
