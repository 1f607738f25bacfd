"""How requests come in and answers go out: within limits that hold before authentication, and in one piece."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from standfast.server.connections import KEY, Connections, group
from standfast.server.problems import Problem
from standfast.server.refusals import (
    body_without_content,
    head_too_large,
    no_room,
    not_http,
    too_far_ahead,
    too_slow,
    trailer,
)
from standfast.settings import CONNECTIONS, CONNECTIONS_PER_ADDRESS

LARGEST_HEAD = 64 << 10
"""Bytes that a request may have before its body."""
MOST_HEADERS = 100
MOST_AHEAD = 16
"""Requests that a client may send before the first of them is answered."""
MOST_AROUND = 8
"""Bytes received per byte of body content: with chunks of one byte, there are six."""
LARGE = 1 << 16
"""More bytes than this are not gathered: a writer of so much must learn when the client does not read."""


class BatchingTransport:
    """A transport that sends everything written to it in one turn of the event loop at once.

    Whenever a thread sends, it lets another one run. With head and body sent separately, the loop of a busy server
    waited for the store's writer thread twice per answer, and that was most of its time.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send this at the end of the loop's turn, or at once if it is much."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > LARGE:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered, if the connection is still open."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send what was gathered, then close."""
        self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        """Send what was gathered, then the end of the stream."""
        self.flush()
        with suppress(OSError):  # the client is gone
            if not self._transport.is_closing():
                self._transport.write_eof()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Phase(Enum):
    """What a connection is waiting for."""

    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    IDLE = "idle"
    REST = "rest"
    """The rest of a body whose request was answered already."""
    END = "end"
    """For the other side to close: it was told why."""


ALLOWED = {
    Phase.HEAD: 10.0,
    Phase.BODY: 30.0,
    Phase.ANSWER: 60.0,
    Phase.IDLE: 20.0,  # uvicorn closes it after five, but waits for clients that do not read
    Phase.REST: 3.0,
    Phase.END: 2.0,
}
"""Seconds that a connection may wait in each phase; an answer to an authenticated client has no limit."""


class Refused(Exception):
    """A request that is not read any further; raised inside the parser's callbacks to stop it."""


class Wire(HttpToolsProtocol):
    """A uvicorn connection that keeps to the server's limits, and sends each answer in one piece."""

    limits = Connections(CONNECTIONS, CONNECTIONS_PER_ADDRESS)

    @classmethod
    def limited(cls, connections: Connections) -> type[Wire]:
        """Return the connection class of one server, with its own limits."""
        return type("LimitedWire", (cls,), {"limits": connections})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the batching between uvicorn and the socket, and register the connection."""
        super().connection_made(BatchingTransport(transport, self.loop))  # type: ignore[arg-type]
        self.address = group(self.client[0]) if self.client else ""
        self.proven = False
        self.held = 0
        self._size = 0
        self._given = 0
        self._reading = False
        self._problem: Problem | None = None
        self._enter(Phase.HEAD)
        self.limits.enter(self, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self.limits.leave(self)
        super().connection_lost(exc)

    def prove(self) -> None:
        """Note that a request showed a valid token or session."""
        self.proven = True
        self.limits.prove(self)

    # --- what a request is made of

    def data_received(self, data: bytes) -> None:
        """Read on, within the limits."""
        self._unset_keepalive_if_required()
        if self._phase is Phase.END:  # it is thrown away, so nothing is held
            return
        if not self.proven:
            self.limits.hold(self, len(data))
        self._size += len(data)
        try:
            self.parser.feed_data(data)
            self._check_progress()
        except HttpParserUpgrade:  # answered as if it had not asked to upgrade; nothing after it is read
            self.cycle.keep_alive = False
        except (HttpParserError, Refused):
            self._refuse(self._problem or not_http())

    def on_message_begin(self) -> None:
        """Start counting for a new request."""
        super().on_message_begin()
        self.scope[KEY] = self  # type: ignore[literal-required]
        self._reading = True
        self._given = 0
        self._enter(Phase.HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; headers after a body are refused, since no code reads them."""
        if self._phase is not Phase.HEAD:
            raise self._refusal_for(trailer())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve a request, unless its head is too large."""
        if self._size > LARGEST_HEAD and _size(self.url, self.headers) > LARGEST_HEAD:
            raise self._refusal_for(head_too_large())
        if len(self.headers) > MOST_HEADERS:
            raise self._refusal_for(head_too_large())
        if len(self.pipeline) >= MOST_AHEAD:
            raise self._refusal_for(too_far_ahead())
        self._size = 0
        self._enter(Phase.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._given += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        self._reading = False
        self._size = 0
        self._enter(Phase.IDLE if self.cycle.response_complete else Phase.ANSWER)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request; if a request was refused early, wait only briefly for the rest of its body."""
        super().on_response_complete()
        if not self.proven:
            self.limits.release(self)
        if not self._reading:
            self._enter(Phase.ANSWER if self._has_more() else Phase.IDLE)
        elif self._phase is Phase.BODY:
            self._enter(Phase.REST)

    def _has_more(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _check_progress(self) -> None:
        """Refuse a head that grows too large before its end, and endless framing between the parts of a body."""
        if self._phase is Phase.HEAD and self._size > LARGEST_HEAD:
            raise self._refusal_for(head_too_large())
        if self._phase is Phase.BODY and self._size > LARGEST_HEAD + self._given * MOST_AROUND:
            raise self._refusal_for(body_without_content())

    # --- what ends it

    @property
    def answering(self) -> bool:
        """Whether a whole request is here, and its answer is on the way to a client that reads."""
        return self._phase is Phase.ANSWER and not self.flow.write_paused

    def is_overdue(self, now: float) -> bool:
        """Return whether what the connection waits for is late."""
        if self._phase is Phase.ANSWER and self.proven:
            return False
        return now - self.since > ALLOWED[self._phase]

    def overdue(self) -> None:
        """Refuse a request that is late; if nothing has arrived at all, the client expects no answer."""
        if self._reading and self._phase in {Phase.HEAD, Phase.BODY}:
            self._refuse(too_slow())
        else:
            self.abort()

    def overfull(self) -> None:
        """Refuse a request because there is no room for it."""
        self._refuse(no_room())

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self.since = self.loop.time()

    def _refusal_for(self, problem: Problem) -> Refused:
        self._problem = problem
        return Refused()

    def _refuse(self, problem: Problem) -> None:
        """Answer a request that is not read any further, unless another answer is under way, and close.

        What still arrives is thrown away for a moment: closing at once could lose the answer before it is read.
        """
        self._enter(Phase.END)
        self.limits.release(self)
        cycle = self.cycle
        begun = cycle is not None and cycle.response_started and not cycle.response_complete
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if begun or self.pipeline or self.transport.is_closing():
            self.transport.close()
            return
        self.transport.write(_written(problem))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def _written(problem: Problem) -> bytes:
    """Return a refusal as bytes for the wire."""
    response = problem.response()
    response.headers["connection"] = "close"
    lines = [STATUS_LINE[response.status_code]]
    lines += [b"%b: %b\r\n" % (name, value) for name, value in response.raw_headers]
    return b"".join([*lines, b"\r\n", bytes(response.body)])
