"""Somebody who listens to live notices, in this process: as slow as a test likes, and without a network in between."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message

PATIENCE = 15.0


class Frame(NamedTuple):
    """One block of a stream; `data` as JSON."""

    id: int | None
    data: dict[str, Any]
    event: str = "message"
    comment: str = ""

    @property
    def told(self) -> tuple[str, str | None]:
        """What it says happened, and to what."""
        return self.data["data"]["kind"], self.data.get("subject")


class Listener:
    """One connection to a server; leaving the block hangs up."""

    def __init__(self, app: ASGIApp, address: str = "/api/v1/notices", method: str = "GET", **headers: str) -> None:
        parts = urlsplit(address)
        shown = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in shown.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._app = app
        self.answered = True
        """Whether it is to be answered at once: entering the block waits for that."""
        self._hung_up = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._text = b""
        self.taking = asyncio.Event()
        """Whether it takes what it is sent; it does not read on while this is not set."""
        self.taking.set()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.frames: list[Frame] = []
        self.body = b""
        self.ended = False
        self._given = 0

    async def _receive(self) -> Message:
        if not self._hung_up.is_set() and not self.ended and not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    _asked = False

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            await self.taking.wait()
            self.body += message["body"]
            self.ended = not message.get("more_body", False)
        async with self._arrived:
            self._read()
            self._arrived.notify_all()

    def _read(self) -> None:
        *whole, rest = self.body[len(self._text) :].split(b"\n\n")
        self._text = self.body[: len(self.body) - len(rest)]
        self.frames += [_frame(each.decode()) for each in whole]

    async def seen(self, fact: Any) -> None:
        """Wait until something is so of what arrived."""
        async with self._arrived:
            await asyncio.wait_for(self._arrived.wait_for(lambda: fact(self)), PATIENCE)

    async def next(self, number: int = 1) -> list[Frame]:
        """Wait for the next notices."""
        wanted = self._given + number
        await self.seen(lambda it: len(it.notices) >= wanted)
        found = self.notices[self._given : wanted]
        self._given = wanted
        return found

    @property
    def notices(self) -> list[Frame]:
        """The notices that arrived, without what only says that the stream is alive."""
        return [each for each in self.frames if each.data]

    async def over(self) -> Self:
        """Wait until the server has ended it."""
        await asyncio.wait_for(asyncio.shield(self._serving), PATIENCE)
        return self

    def hang_up(self) -> None:
        """Read no more."""
        self._hung_up.set()

    async def __aenter__(self) -> Self:
        self._serving = asyncio.ensure_future(self._app(self._scope, self._receive, self._send))
        await self.seen(lambda it: not it.answered or (it.status and (it.frames or it.ended)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()
        await asyncio.wait_for(self._serving, PATIENCE)


def _frame(text: str) -> Frame:
    said = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
    comment = " ".join(line[1:].strip() for line in text.splitlines() if line.startswith(":"))
    number = int(said["id"]) if "id" in said else None
    return Frame(number, json.loads(said.get("data", "{}")), said.get("event", "message"), comment)
