"""The request line and headers that are sent are those a well-known client would send, and a dead receiver is named."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest

from standfast.failure.classify import of_exception
from standfast.wings.http.broken import ConnectError, ConnectTimeout, NetworkError, ProtocolError
from standfast.wings.http.client import Wire
from standfast.wings.http.http_connection import Origin, target_of
from standfast.wings.http.words import HttpRequest, Reply, Route

HERE = Route("", ("127.0.0.1",), reuse=True)


@pytest.mark.parametrize(
    "rest",
    [
        *("", "/", "/a/b", "/a//b", "?q=1", "/?q=1&r=2", "/a?", "/a#part", "/a?q=1#part", "/a?q=?"),
        *("/ä/ö", "/a%20b", "/a%2Fb", "/%zz", "/a?q=ä", "/a?q=%2F&r=a/b", "/a:b@c;d=e,f", "/a+b?c+d", "/a?x=[1]"),
        *("/a/./b", "/a/../b", "/../a", "/a/..", "/a/.", "/a/b/../../c", "/.hidden", "/a..b/c."),
        *("/a~b-c_d.e!f$g&h'i(j)k*l", '/a"b', "/a<b>", "/a|b", "/a^b", "/a`b", "/a{b}", '/a?b="c"', "/a?b=<c>`{d}|^"),
    ],
)
def test_the_request_line_is_what_httpx_sends(rest: str):
    url = f"http://example.com{rest}"
    assert target_of(url).encode() == httpx2.URL(url).raw_path


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://example.com:443/",
        "http://example.com:8080/",
        "http://[::1]/",
        "https://[::1]:444/",
    ],
)
def test_the_host_header_is_what_httpx_sends(url: str):
    assert Origin.of(url).name == httpx2.Request("GET", url).headers["Host"]


@pytest.mark.parametrize(
    ("error", "judged"),
    [
        (ConnectError("refused"), ("transient", "no", "dependency_unavailable")),
        (ConnectTimeout("slow"), ("transient", "no", "timeout")),
        (NetworkError("reset"), ("transient", "maybe", "dependency_unavailable")),
        (ProtocolError("cut"), ("transient", "maybe", "dependency_unavailable")),
    ],
)
def test_what_was_not_sent_is_told_apart_from_what_may_have_arrived(error: Exception, judged: tuple[str, str, str]):
    failure = of_exception(error).failure
    assert (failure.cls, failure.landed, failure.reason_code) == judged


class Receiver:
    """A receiver that answers each connection with given bytes, request after request, and then may hang up."""

    def __init__(self, *answers: bytes, close: bool = False) -> None:
        self.answers, self.close, self.connections = list(answers), close, 0
        self.heads: list[bytes] = []
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self.answers.pop(0))
                await writer.drain()
                if self.close:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self.ended.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Give where it listens; it has hung up when this ends."""
        async with await asyncio.start_server(self, "127.0.0.1", 0) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await self.ended.wait()


async def exchange(receiver: Receiver, times: int = 1, *, route: Route = HERE, method: str = "GET") -> list[Reply]:
    wire = Wire()
    async with receiver.listening() as place:
        request = HttpRequest(method, f"http://{place}/")
        try:
            return [await wire.send(request, [], route, 10) for _ in range(times)]
        finally:
            await wire.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_connection_is_used_again_only_where_the_route_allows_it():
    again = Receiver(OK, OK)
    assert [reply.body for reply in await exchange(again, 2)] == [b"ok", b"ok"]
    assert again.connections == 1
    anew = Receiver(OK, OK)
    await exchange(anew, 2, route=HERE._replace(reuse=False))
    assert anew.connections == 2


async def test_a_connection_that_the_receiver_closed_is_not_used_again():
    receiver = Receiver(OK, OK, close=True)
    assert [reply.status for reply in await exchange(receiver, 2)] == [200, 200]
    assert receiver.connections == 2


async def test_chunks_announcements_and_repeated_headers_are_read():
    told = (
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nETag: a\r\nETag: b\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    [reply] = await exchange(Receiver(told + b"2\r\nok\r\n0\r\n\r\n"))
    assert (reply.status, reply.body, reply.headers["etag"]) == (200, b"ok", "a, b")


async def test_a_body_that_ends_with_the_connection_is_read():
    [reply] = await exchange(Receiver(b"HTTP/1.0 200 OK\r\n\r\nto the end", close=True))
    assert reply.body == b"to the end"


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"])
async def test_what_is_no_whole_reply_may_have_arrived(answer: bytes):
    with pytest.raises(ProtocolError):
        await exchange(Receiver(answer, close=True))


async def test_a_refusal_that_is_cut_off_still_counts():
    [reply] = await exchange(Receiver(b"HTTP/1.1 422 No\r\nContent-Length: 99\r\n\r\nbad", close=True))
    assert (reply.status, reply.body) == (422, b"bad")


async def test_a_post_without_a_body_says_that_it_has_none():
    receiver = Receiver(OK)
    await exchange(receiver, method="POST")
    assert b"Content-Length: 0" in receiver.heads[0]


async def test_a_refused_connection_sent_nothing():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # taken, and nobody listens
        with pytest.raises(ConnectError):
            await Wire().send(HttpRequest("GET", f"http://127.0.0.1:{held.getsockname()[1]}/"), [], HERE, 5)


async def test_a_receiver_without_tls_sent_nothing():
    wire = Wire()
    async with Receiver(b"no tls here\r\n\r\n", close=True).listening() as place:
        with pytest.raises(ConnectError):
            await wire.send(HttpRequest("GET", f"https://{place}/"), [], HERE, 1)
