"""How answers leave the server: each in one piece, whatever it is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from standfast.server import wire
from standfast.server.wire import BatchingTransport, Wire


class Socket:
    """A transport that notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.sent.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def gathering() -> tuple[Socket, Any]:
    socket: Any = Socket()
    return socket, BatchingTransport(socket, asyncio.get_running_loop())


async def test_what_is_written_in_one_turn_is_sent_at_once() -> None:
    socket, transport = gathering()
    transport.write(b"head ")
    transport.write(b"body")
    assert socket.sent == []
    await asyncio.sleep(0)
    transport.write(b"more")
    await asyncio.sleep(0)
    assert socket.sent == [b"head body", b"more"]
    assert transport.get_extra_info("peername") == "the peername"


async def test_nothing_is_lost_when_it_closes_and_nothing_sent_after() -> None:
    socket, transport = gathering()
    transport.write(b"last words")
    transport.close()
    assert socket.sent == [b"last words"]
    transport.write(b"too late")
    await asyncio.sleep(0)
    assert socket.sent == [b"last words"]


async def test_much_is_not_gathered() -> None:
    """Whoever writes without end must learn from the socket when to wait."""
    socket, transport = gathering()
    transport.write(b"x" * wire.LARGE)
    assert socket.sent == []
    transport.write(b"y")
    assert [len(each) for each in socket.sent] == [wire.LARGE + 1]


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    config = uvicorn.Config(app, "127.0.0.1", 0, http=Wire, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    with config.bind_socket() as socket:
        task = asyncio.create_task(server.serve([socket]))
        socket.listen()
        yield socket.getsockname()[1]
        server.should_exit = True
        await task


async def slow_reader_app(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": b"z" * 65536, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def test_a_long_answer_comes_whole() -> None:
    async with serving(slow_reader_app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 15)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"z") == 64 * 65536
    assert answer.endswith(b"0\r\n\r\n")
