"""What a server takes from whoever has shown nothing: little, for a short time, and never the place of others."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from standfast import Standfast
from standfast.server import connections, wire
from standfast.server.connections import Connection, Connections, group
from standfast.server.wire import ALLOWED, LARGEST_HEAD, Phase
from tests.doors.house import House

HOST = b"Host: 127.0.0.1\r\n"
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a server wait for a short time only."""
    monkeypatch.setattr(connections, "EVERY", 0.02)
    for phase, seconds in ((Phase.HEAD, 0.4), (Phase.BODY, 0.4), (Phase.REST, 0.2), (Phase.END, 0.2)):
        monkeypatch.setitem(ALLOWED, phase, seconds)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a server wait for longer than a test takes."""
    for phase in ALLOWED:
        monkeypatch.setitem(ALLOWED, phase, 60.0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(Standfast(tmp_path / "queue.db"), working=False) as open_:
        yield open_


def limited(directory: Path, connections: Connections) -> House:
    return House(Standfast(directory / "queue.db"), working=False, connections=connections)


class Wire:
    """A connection over which a test sends any bytes."""

    def __init__(self, house: House, address: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(("127.0.0.1", house.port), PATIENCE, source_address=(address, 0))

    def send(self, *parts: bytes) -> Wire:
        self._socket.sendall(b"".join(parts))
        return self

    def trickle(self) -> None:
        """Send a byte now and then until the server hangs up."""
        deadline = time.monotonic() + PATIENCE
        with suppress(ConnectionError):
            while time.monotonic() < deadline:
                self.send(b"x")
                time.sleep(0.02)
            pytest.fail("the server reads on and on")

    def status(self) -> int:
        """Wait for an answer, and give its status; 0 where the server hung up."""
        line = self.received(until=b"\r\n")
        return int(line.split()[1]) if line.startswith(b"HTTP/1.1 ") else 0

    def received(self, until: bytes | None = None) -> bytes:
        """Read up to some text, or until the server hangs up."""
        found = b""
        try:
            while until is None or until not in found:
                part = self._socket.recv(65536)
                if not part:
                    break
                found += part
        except ConnectionError:
            pass
        return found

    def is_open(self) -> bool:
        """Tell whether the server still answers here."""
        try:
            return self.send(b"GET /healthz HTTP/1.1\r\n", HOST, b"\r\n").status() == 200
        except ConnectionError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def healthy(house: House) -> bool:
    with Wire(house) as fresh:
        return fresh.is_open()


def test_a_head_that_trickles_is_cut(house: House) -> None:
    """Each byte comes in time, the whole does not."""
    with Wire(house) as slow:
        slow.send(b"GET /healthz HTTP/1.1\r\n", HOST)
        slow.trickle()
        assert slow.status() in {0, 408}
    assert healthy(house)


def test_a_connection_that_says_nothing_is_closed(house: House) -> None:
    with Wire(house) as silent:
        assert silent.received() == b""


def test_a_body_that_trickles_is_cut_also_with_a_token(house: House) -> None:
    """And what came of it does nothing."""
    token = house.token("p", "producer")
    shown = f"Authorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n".encode()
    with Wire(house) as slow:
        slow.send(b"POST /api/v1/jobs HTTP/1.1\r\n", HOST, shown, b"{")
        assert slow.status() == 408
    assert house.ask(lambda sf: sf.jobs()) == []


@pytest.mark.parametrize(
    "head",
    [
        b"Cookie: " + b"c" * LARGEST_HEAD + b"\r\n\r\n",
        b"x: y\r\n" * 101 + b"\r\n",
        b"a: " + b"a" * LARGEST_HEAD,
        b"".join(b"n%d: v\r\n" % n for n in range(20_000)),
    ],
    ids=["one huge cookie", "many small ones", "one without end", "many without end"],
)
def test_a_head_that_is_too_large_is_refused(house: House, head: bytes) -> None:
    """Whole or not."""
    with Wire(house) as greedy:
        assert greedy.send(b"GET /healthz HTTP/1.1\r\n", HOST, head).status() == 431
    with Wire(house) as greedy:
        assert greedy.send(b"GET /", b"a" * LARGEST_HEAD, b" HTTP/1.1\r\n", HOST, b"\r\n").status() == 431
    assert healthy(house)


def test_a_head_just_within_the_limit_is_served(house: House) -> None:
    with Wire(house) as large:
        cookie = b"Cookie: " + b"c" * (LARGEST_HEAD - 200) + b"\r\n"
        assert large.send(b"GET /healthz HTTP/1.1\r\n", HOST, cookie, b"\r\n").status() == 200


CHUNKED = b"POST /sign-in HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("endless", "status"),
    [
        pytest.param(b"1;" + b"e" * 300_000, 400, id="extension"),
        pytest.param(b"0\r\n" + b"t: " + b"t" * 300_000, 400, id="long trailer"),
        pytest.param(b"0\r\nt: v\r\nu: w\r\n", 400, id="trailer"),
        pytest.param(b"1\r\nx\r\n" * 20_000, 413, id="body"),
    ],
)
def test_a_chunked_body_without_end_is_refused(house: House, endless: bytes, status: int) -> None:
    """Neither its parts nor what stands between them is taken for ever."""
    with Wire(house) as greedy:
        assert greedy.send(CHUNKED, endless).status() == status
    assert healthy(house)


SMUGGLED = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: 4, 4\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding:\n chunked\r\nContent-Length: 4\r\n",
    ],
)
def test_a_request_that_two_readers_would_end_differently_is_refused(house: House, framing: bytes) -> None:
    """Nothing behind it is answered: a proxy might have taken that for a body."""
    with Wire(house) as sly:
        sly.send(b"POST /sign-in HTTP/1.1\r\n", HOST, framing, b"\r\n0\r\n\r\n", SMUGGLED)
        said = sly.received()
    assert said.startswith(b"HTTP/1.1 400")
    assert b"\r\n\r\nup" not in said


@pytest.mark.parametrize("request_line", [b"TRACE / HTTP/1.1\r\n", b"TRACE /api/v1/jobs HTTP/1.1\r\n"])
def test_trace_is_refused(house: House, request_line: bytes) -> None:
    with Wire(house) as curious:
        said = curious.send(request_line, HOST, b"X-Secret: s3cret\r\n\r\n").received(until=b"hint")
    assert said.startswith(b"HTTP/1.1 405")
    assert b"s3cret" not in said


def test_an_upgrade_is_answered_as_if_it_had_not_been_asked_for(house: House) -> None:
    """Nothing else than HTTP is spoken here."""
    for kind in (b"websocket", b"h2c"):
        asked = b"Connection: Upgrade\r\nUpgrade: " + kind + b"\r\nSec-WebSocket-Key: eA==\r\n\r\n"
        with Wire(house) as sly:
            said = sly.send(b"GET /api/v1/notices HTTP/1.1\r\n", HOST, asked, b"\x81\x05hello").received()
        assert said.startswith(b"HTTP/1.1 401")
        assert said.count(b"HTTP/1.1") == 1


def test_http_1_0_is_served_once(house: House) -> None:
    with Wire(house) as old:
        said = old.send(b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n").received()
    assert said.count(b"HTTP/1.1 200") == 1


def test_requests_sent_far_ahead_of_their_answers_are_refused(house: House) -> None:
    """Thousands of them fit into one packet; each would be kept."""
    with Wire(house) as hasty:
        hasty.send(SMUGGLED * 5_000)
        assert hasty.received().count(b"HTTP/1.1 200") <= wire.MOST_AHEAD + 1
    assert healthy(house)


def test_a_refused_body_is_not_read_to_its_end(house: House) -> None:
    """The answer comes at once, and the connection ends although more is sent."""
    with Wire(house) as large:
        large.send(b"POST /api/v1/jobs HTTP/1.1\r\n", HOST, b"Content-Length: 999999\r\n\r\n")
        assert large.status() == 401
        large.trickle()


def test_a_body_that_comes_after_its_answer_does_not_close_the_connection(house: House) -> None:
    """Some verbs take none, and many clients send one all the same, in a packet of its own."""
    with Wire(house) as client:
        client.send(b"POST /api/v1/jobs HTTP/1.1\r\n", HOST, b"Content-Length: 2\r\n\r\n")
        assert client.received(until=b'"hint"').startswith(b"HTTP/1.1 401")
        client.send(b"{}")
        assert client.is_open()


@pytest.mark.usefixtures("patient")
def test_a_newcomer_takes_the_place_of_the_oldest_that_has_shown_nothing(tmp_path: Path) -> None:
    """Whoever showed a token stays."""
    with limited(tmp_path, Connections(4, 100)) as house, ExitStack() as all_:
        known = all_.enter_context(Wire(house))
        shown = f"Authorization: Bearer {house.token('v', 'viewer')}\r\n\r\n".encode()
        known.send(b"GET /api/v1/notices HTTP/1.1\r\n", HOST, shown)
        known.received(until=b"from here on")
        crowd = [all_.enter_context(Wire(house)) for _ in range(20)]
        for each in crowd[-3:-1]:
            each.send(b"GET /healthz HTTP/1.1\r\n")
        assert crowd[-1].is_open()
        assert [each.received() for each in crowd[:-4]] == [b""] * 16
        house.ask(lambda sf: sf.enqueue("echo", 1))
        assert b"enqueued" in known.received(until=b"enqueued")


@pytest.mark.usefixtures("patient")
def test_one_address_has_so_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses its own, and no other's."""
    with limited(tmp_path, Connections(100, 3)) as house, ExitStack() as all_:
        other = all_.enter_context(Wire(house, "127.0.0.2"))
        crowd = [all_.enter_context(Wire(house)) for _ in range(6)]
        assert crowd[-1].is_open(), "many may come at once"
        monkeypatch.setattr(connections, "GRACE", 0.0)
        crowd += [all_.enter_context(Wire(house)) for _ in range(6)]
        assert crowd[-1].is_open()
        assert [each.received() for each in crowd[:5]] == [b""] * 5
        assert other.is_open()


@pytest.mark.usefixtures("patient")
def test_of_bodies_that_are_too_much_together_the_oldest_large_ones_are_refused(tmp_path: Path) -> None:
    """Of whoever has shown nothing; who comes with a token is served."""
    with limited(tmp_path, Connections(100, 100, most_bytes=40_000)) as house, ExitStack() as all_:
        token = house.token("p", "producer", queues=["echo"])
        form = b"POST /sign-in HTTP/1.1\r\n" + HOST + b"Content-Length: 16000\r\n\r\n"
        held = [all_.enter_context(Wire(house)) for _ in range(4)]
        for number, each in enumerate(held):
            each.send(form, b"t" * (9_000 + number * 1000))
        assert held[2].status() == 503
        with httpx2.Client(base_url=house.url, headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.post("/api/v1/jobs", json={"queue": "echo", "payload": "x" * 12_000}).status_code == 201


def test_a_network_of_addresses_counts_as_one() -> None:
    assert group("2001:db8::1") == group("2001:db8::ffff") != group("2001:db8:0:1::1")
    assert group("::ffff:192.0.2.1") == group("192.0.2.1") == "192.0.2.1"
    assert group("testclient") == "testclient"


class Watched(Connections):
    """Connections that a test can look at."""

    def __init__(self, most: int, per_address: int) -> None:
        super().__init__(most, per_address)
        self.entered: list[Any] = []

    def enter(self, newcomer: Connection, loop: asyncio.AbstractEventLoop) -> None:
        super().enter(newcomer, loop)
        self.entered.append(newcomer)


def stop_reading(house: House, limits: Watched) -> socket.socket:
    """Ask for one file again and again over a new connection, and read nothing, until the server cannot write."""
    known = len(limits.entered)
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", house.port))
    deadline = time.monotonic() + PATIENCE
    while not any(_is_stuck(each) for each in limits.entered[known:]):
        assert time.monotonic() < deadline, "the server writes on and on"
        deaf.sendall((b"GET /static/vendor/htmx.min.js HTTP/1.1\r\n" + HOST + b"\r\n") * 3)
        time.sleep(0.02)
    return deaf


def _is_stuck(connection: Any) -> bool:
    return bool(connection.flow.write_paused and connection._phase is Phase.ANSWER)  # noqa: SLF001 - nobody else asks


@pytest.mark.usefixtures("patient")
def test_clients_that_do_not_read_their_answers_keep_nobody_out(tmp_path: Path) -> None:
    limits = Watched(3, 3)
    with limited(tmp_path, limits) as house, ExitStack() as all_:
        for _ in range(3):
            all_.enter_context(stop_reading(house, limits))
        assert healthy(house)


class Busy:
    """A connection that is always being answered."""

    address = "192.0.2.1"
    proven = answering = True
    since = 0.0
    held = 0
    closed = False

    def abort(self) -> None:
        self.closed = True


async def test_requests_without_end_keep_nobody_out() -> None:
    """However many of the oldest connections are busy, one that waits goes; if all are busy, the oldest."""
    loop = asyncio.get_running_loop()
    limits, crowd = Connections(61, 1000), [Busy() for _ in range(62)]
    crowd[60].answering = False
    for each in crowd:
        limits.enter(each, loop)  # type: ignore[arg-type]
    assert [number for number, each in enumerate(crowd) if each.closed] == [60]
    limits.enter(Busy(), loop)  # type: ignore[arg-type]
    assert [number for number, each in enumerate(crowd) if each.closed] == [0, 60]
    for left in crowd:
        limits.leave(left)  # type: ignore[arg-type]


@pytest.mark.usefixtures("patient")
def test_what_is_sent_on_behind_a_refusal_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is thrown away, and counts for nobody."""
    with limited(tmp_path, Connections(10, 10, most_bytes=100_000)) as house, Wire(house) as rude:
        assert rude.send(b"no request\r\n\r\n").status() == 400
        with suppress(ConnectionError):
            for _ in range(40):
                rude.send(b"x" * 10_000)
        assert healthy(house)
    assert not [each for each in caplog.records if each.name == "asyncio"]
