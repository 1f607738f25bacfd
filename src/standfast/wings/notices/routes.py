"""Live notices as server-sent events: each a CloudEvent, in commit order, from every process, resumable by number.

A connection has a position in the journal and nothing else. What it cannot take now it reads later, from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from standfast.concurrency.threads import with_timeout
from standfast.errors import StoreGone, StoreUnavailable
from standfast.lifecycle import NoticeKind
from standfast.server.auth import Gatekeeper, check_queue, check_right
from standfast.server.origin import is_foreign, wrong_origin
from standfast.server.problems import RETRY_AFTER, Problem
from standfast.server.request_headers import headers
from standfast.server.route import Answer, Call, Route
from standfast.server.shutdown import Shutdown, stopped
from standfast.wings.access.words import Right
from standfast.wings.notices.journal_reader import Reader
from standfast.wings.notices.shapes import NoticeEvent
from standfast.wings.notices.words import Notice

HEARTBEAT = 15.0
"""Seconds after which a quiet stream sends a sign of life, with its position."""
RECHECK = 2.0
"""Seconds between checks of the reader's token: a revoked token's stream ends that soon."""
LONGEST = 3600.0
"""Seconds a stream lasts; its reader then reconnects, and continues where it was."""
LAST_WORD = 0.5
"""Seconds a reader has to receive the end of its stream."""
STORE_AWAY = 1.0
"""Seconds until a store that did not answer is asked again."""
MOST_FRAMES = 5000
"""How many notices are cached as they are sent, because most readers get the same ones."""
MEDIA_TYPE = "text/event-stream"
HEADERS = (
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # else a proxy would keep notices until there are many
)
BEGIN = b"retry: 2000\n: from here on\n\n"
Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Open = Callable[[int | None], Awaitable[Reader]]


class WantedNotices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which notices: kinds, separated by commas; one queue; after which number. A `Last-Event-ID` goes first."""

    kinds: str | None = None
    queue: str | None = None
    after: Number | None = None


class Readers:
    """All live readers of one server: how many there are, and when they must end."""

    def __init__(self, gate: Gatekeeper, shutdown: Shutdown, most: int) -> None:
        self.gate = gate
        self.shutdown = shutdown
        self._most = most
        self._open = 0
        self._frames: dict[int, bytes] = {}

    def check_room(self) -> None:
        """Refuse one reader too many."""
        if self._open >= self._most:
            hint = "Close other live views, or raise readers in [server] of standfast.toml; lists need none."
            detail = f"{self._open} streams are open, as many as this server serves"
            raise Problem(503, "too-many-readers", detail, hint, headers=RETRY_AFTER)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count a reader as long as it reads."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def frame(self, notice: Notice, call: Call) -> bytes:
        """Return a notice as it is sent; it is encoded once for all readers."""
        if notice.kind == NoticeKind.GAP:  # each reader missed something else
            return b"event: gone\n" + _frame(notice, call)
        if notice.seq not in self._frames:
            if len(self._frames) >= MOST_FRAMES:
                self._frames.clear()
            self._frames[notice.seq] = _frame(notice, call)
        return self._frames[notice.seq]


def _frame(notice: Notice, call: Call) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (notice.seq, msgspec.json.encode(call.sf.as_event(notice)))


class Stream(Response):
    """A connection that notices are sent over until its reader, its right or the server is gone."""

    def __init__(self, call: Call, reader: Reader, open_: Open, readers: Readers) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        self._call = call
        self._reader = reader
        self._open = open_
        self._readers = readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        with self._readers.counting():
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            if scope["method"] != "HEAD":
                await self._until_over(receive, send)
            with suppress(TimeoutError):  # a reader that does not read is disconnected
                await with_timeout(_say(send, b"", more=False), LAST_WORD)

    async def _until_over(self, receive: Receive, send: Send) -> None:
        """Send until the reader hangs up or must end, or the server ends, even while the reader takes nothing."""
        telling = asyncio.ensure_future(self._tell(send))
        ends = (_hung_up(receive), self._readers.shutdown.wait(), self._has_to_go())
        ending = [asyncio.ensure_future(each) for each in ends]
        try:
            await asyncio.wait([telling, *ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await stopped(telling, *ending)
        for each in (telling, *ending):
            if not each.cancelled():
                with suppress(StoreGone):  # there will be no more notices
                    each.result()

    async def _tell(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        said = clock()
        await _say(send, BEGIN)
        while True:
            found = await self._more(max(0.0, said + HEARTBEAT - clock()))
            if found or clock() - said >= HEARTBEAT:
                await self._send(send, found)
                said = clock()

    async def _has_to_go(self) -> None:
        """Wait until the reader's token is revoked, or its stream has lasted long enough."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                await asyncio.sleep(RECHECK)
                while await self._may_still():  # noqa: ASYNC110 - the store is polled, as it sends no signal
                    await asyncio.sleep(RECHECK)

    async def _more(self, within: float) -> list[Notice]:
        """Return the next notices. A store that was away may be another one when it is back: its reader is told so."""
        try:
            return await self._reader.more(within)
        except StoreGone:
            raise
        except StoreUnavailable:
            await asyncio.sleep(STORE_AWAY)
            with suppress(StoreUnavailable):
                self._reader = await self._open(self._reader.seq)
            return []

    async def _send(self, send: Send, found: list[Notice]) -> None:
        """Send notices and the present position, so that a reader with a narrow filter does not restart far behind."""
        if found:
            await _say(send, b"".join(self._readers.frame(notice, self._call) for notice in found))
        await _say(send, b": here\nid: %d\n\n" % self._reader.seq)

    async def _may_still(self) -> bool:
        """Return whether the reader may go on. While the store is away, it may."""
        try:
            grant = await self._readers.gate.grant(self._call.request)
            check_right(grant, ROUTE.right)
        except Problem:
            return False
        except StoreGone:
            return False
        except StoreUnavailable:
            return True
        return grant == self._call.grant


async def _say(send: Send, text: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": more})


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def notices(call: Call) -> Answer:
    """Send notices as they are committed."""
    wanted: WantedNotices = call.query
    readers: Readers = call.request.app.state.readers
    _check_page(call.request)
    if wanted.queue is not None:
        check_queue(call.grant, wanted.queue)
    queues = call.grant.queues if wanted.queue is None else (wanted.queue,)
    open_ = partial(call.sf.reader, _kinds(wanted.kinds), queues)
    reader = await open_(_after(call.request, wanted.after))
    readers.check_room()
    return Answer(None, whole=Stream(call, reader, open_, readers))


def _kinds(given: str | None) -> frozenset[str] | None:
    return None if given is None else frozenset(filter(None, map(str.strip, given.split(","))))


def _after(request: Request, after: int | None) -> int | None:
    """Return where to continue: where a returning reader was, else where the address says."""
    shown = request.headers.get("last-event-id")
    if not shown:
        return after
    try:
        return msgspec.convert(shown, Number, strict=False)
    except msgspec.ValidationError as error:
        hint = "Send the id of the last notice that you have, or none."
        raise Problem(422, "invalid-request", "Last-Event-ID is not the number of a notice", hint) from error


def _check_page(request: Request) -> None:
    """Refuse a page of another origin: it could read nothing, but would occupy a reader's place."""
    if is_foreign(headers(request.scope)):
        raise wrong_origin()


ROUTE = Route(
    "GET",
    "/notices",
    Right.READ,
    notices,
    "Send notices as they are committed: server-sent CloudEvents, resumable with Last-Event-ID",
    query=WantedNotices,
    answer=NoticeEvent,
    gives=MEDIA_TYPE,
    headers=("Last-Event-ID",),
)
ROUTES = (ROUTE,)
