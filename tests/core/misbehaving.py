"""A receiver that reads a request to its end, then misbehaves as the path asks; and places where nobody answers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import urlsplit

ANSWERS = {
    "close": b"",
    "garbage": b"hello there\r\n\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    "html": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<a>",
    "busy": b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    "loop": b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "fine": b"HTTP/1.1 204 Fine\r\n\r\n",
}
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER for no time: closing resets."""


class Misbehaving:
    """The receiver, and URLs that lead to every kind of trouble."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = Event()
        self._full = socket.create_server(("127.0.0.1", 0), backlog=0)
        self._waiting = [_begin(self._full.getsockname()) for _ in range(3)]
        with socket.create_server(("127.0.0.1", 0)) as gone:
            refused = _port(gone)
        at = f"127.0.0.1:{_port(self._listener)}"
        self.urls = {name: f"http://{at}/{name}" for name in (*ANSWERS, "hang", "reset")} | {
            "refused": f"http://127.0.0.1:{refused}/",
            "full": f"http://127.0.0.1:{_port(self._full)}/",
            "no name": "http://nowhere.invalid/",
            "no TLS": f"https://{at}/",
        }

    def serve(self) -> None:
        """Answer one connection after the other; those that hang get a thread each."""
        with suppress(OSError):  # it was closed
            while True:
                Thread(target=self._answer, args=(self._listener.accept()[0],), daemon=True).start()

    def close(self) -> None:
        """Let go of every socket, and of whoever waits for an answer."""
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in (self._listener, self._full, *self._waiting):
            each.close()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):  # who asked may be gone already
            what = _path(client)
            if what == "hang":
                self._over.wait()
            elif what == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            else:
                client.sendall(ANSWERS.get(what, ANSWERS["garbage"]))


@contextmanager
def misbehaving() -> Iterator[Misbehaving]:
    """Run the receiver for a while."""
    receiver = Misbehaving()
    thread = Thread(target=receiver.serve)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.close()
        thread.join()


def _path(client: socket.socket) -> str:
    """Read a whole request, so that closing does not reset; give what it asks for."""
    read = b""
    while (missing := _missing(read)) > 0 and (chunk := client.recv(missing)):
        read += chunk
    return urlsplit(read.split(b" ")[1].decode()).path.strip("/") if read[:1].isalpha() else ""


def _missing(read: bytes) -> int:
    """Count the bytes of a request that are still to come, at least; what is no HTTP is whole as it is."""
    if read and not read[:1].isalpha():
        return 0
    head, end, body = read.partition(b"\r\n\r\n")
    if not end:
        return 1 << 16
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return sum(map(int, lengths)) - len(body)


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _begin(address: tuple[str, int]) -> socket.socket:
    """Begin to connect: what nobody accepts fills the queue of those who wait to be."""
    one = socket.socket()
    one.setblocking(False)  # noqa: FBT003 - the interface has it
    one.connect_ex(address)
    return one
