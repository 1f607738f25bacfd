"""A Redis to read from: the real one where it is installed, else as much of one as an import asks."""

from __future__ import annotations

import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from tests.waiting import DEADLINE

Lists = dict[str, list[str]]


@contextmanager
def real_redis(place: Path) -> Iterator[str]:
    """Start a redis-server of the test's own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(place)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Ready to accept connections" in line:
                break
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE)


def has_real_redis() -> bool:
    """Tell whether a redis-server is installed."""
    return shutil.which("redis-server") is not None


class _Session(socketserver.StreamRequestHandler):
    """Answers the protocol, RESP 2, for lists and texts."""

    server: SmallRedis

    def handle(self) -> None:
        with suppress(ConnectionError, ValueError):
            queued: list[Any] | None = None
            while words := self._words():
                match words[0].upper():
                    case "MULTI":
                        queued = []
                        self._say("+OK")
                    case "EXEC":
                        self._say(queued or [])
                        queued = None
                    case _ if queued is not None:
                        queued.append(self.server.answer(words))
                        self._say("+QUEUED")
                    case _:
                        self._say(self.server.answer(words))

    def _words(self) -> list[str]:
        head = self.rfile.readline()
        count = int(head[1:]) if head.startswith(b"*") else 0
        return [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2].decode() for _ in range(count)]

    def _say(self, answer: Any) -> None:
        self.wfile.write(_encoded(answer))


def _encoded(answer: Any) -> bytes:
    if answer is None:
        return b"$-1\r\n"
    if isinstance(answer, list):
        return f"*{len(answer)}\r\n".encode() + b"".join(map(_encoded, answer))
    if isinstance(answer, int):
        return f":{answer}\r\n".encode()
    if answer[:1] in {"+", "-"}:
        return f"{answer}\r\n".encode()
    return f"${len(answer.encode())}\r\n{answer}\r\n".encode()


class SmallRedis(socketserver.ThreadingTCPServer):
    """Keeps lists and texts, and gives them out."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.lists: Lists = {}
        self.texts: dict[str, str] = {}

    def answer(self, words: list[str]) -> Any:
        """Do what a command asks."""
        known: dict[str, Callable[..., Any]] = {
            "RPUSH": self._push,
            "SET": self._set,
            "GET": self.texts.get,
            "LLEN": lambda name: len(self.lists.get(name, [])),
            "LRANGE": lambda name, first, last: self.lists.get(name, [])[int(first) : int(last) + 1],
            "TYPE": lambda name: "+list" if name in self.lists else "+string" if name in self.texts else "+none",
            "CLIENT": lambda *_: "+OK",
            "SELECT": lambda *_: "+OK",
        }
        does = known.get(words[0].upper())
        return f"-ERR unknown command '{words[0]}'" if does is None else does(*words[1:])

    def _push(self, name: str, *elements: str) -> int:
        self.lists[name] = [*self.lists.get(name, []), *elements]
        return len(self.lists[name])

    def _set(self, name: str, value: str) -> str:
        self.texts[name] = value
        return "+OK"


@contextmanager
def small_redis(_place: Path) -> Iterator[str]:
    """Serve as much of a Redis as an import asks, over the real protocol."""
    with SmallRedis() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0?protocol=2"
        server.shutdown()


def filled(address: str, lists: Lists, texts: dict[str, str] | None = None) -> str:
    """Put lists and texts there."""
    with redis.Redis.from_url(address) as client:
        for name, elements in lists.items():
            client.rpush(name, *elements)
        for name, value in (texts or {}).items():
            client.set(name, value)
    return address
