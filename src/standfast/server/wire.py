"""How answers leave: head and body of one go out together, where uvicorn alone would send each by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGE = 1 << 16
"""Bytes that are not gathered: whoever writes so much must learn when the other side does not read."""


class Gathering:
    """A transport that sends what was written to it in one turn of the loop at once.

    Whenever a thread sends, it lets another one run; with a head and a body apart, the loop of a busy server waited for
    the store's writer twice for each answer, and that was most of its time.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Have this sent when the turn is over, or at once if it is much."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > LARGE:
            self.flush()

    def flush(self) -> None:
        """Send what there is, if anybody is still there."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send what there is, and nothing more."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Wire(HttpToolsProtocol):
    """A connection of uvicorn's, whose answers go out in one piece."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the gathering between uvicorn and the socket."""
        super().connection_made(Gathering(transport, self.loop))  # type: ignore[arg-type]
