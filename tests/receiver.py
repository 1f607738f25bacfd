"""A real receiver in a process of its own. It writes each request down before it answers, as one appended line.

What it answers stands in the URL's query, so that a test reads in one place what happens:

    status=500,200     the first request of this path gets 500, every later one 200 (default 200)
    header=Name:value  a header of the reply, any number of times
    body=text          the reply's body (default `{"ok": true}`), in Latin-1; type=… its content type
    date=…             what its Date header says
    do=slow            answers after `seconds`            do=drip   sends its head, then a byte now and then
    do=reset           reads, then resets the connection  do=close  reads, then closes without a reply
    do=half            promises more than it sends        do=huge   50 MB of x, or of `fill`

`do` takes a list too: `do=reset,answer`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlencode, urlsplit

HUGE = 50 << 20
RESET = struct.pack("ii", 1, 0)
"""Linger for no time: closing sends a reset."""


class Answering(BaseHTTPRequestHandler):
    """Writes down, then does what the query says."""

    protocol_version = "HTTP/1.1"
    log_file: int
    counts: ClassVar[Counter[str]] = Counter()
    lock = Lock()

    def _receive(self) -> None:
        parts = urlsplit(self.path)
        self.asked = parse_qs(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            self.nth = self.counts[parts.path]
            self.counts[parts.path] += 1
        self._write_down(parts.path, body)
        getattr(self, f"act_{self._turn('do', 'answer')}")()

    # The names http.server looks for.
    do_GET = do_HEAD = do_POST = do_PUT = _receive  # noqa: N815
    do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = _receive  # noqa: N815

    def _write_down(self, path: str, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = {"method": self.command, "path": path, "headers": headers, "body": body.decode(), "at": time.time()}
        line = json.dumps({**seen, "connection": self.client_address[1]})
        os.write(self.log_file, line.encode() + b"\n")

    def _turn(self, name: str, default: str) -> str:
        turns = self.asked.get(name, [default])[0].split(",")
        return turns[min(self.nth, len(turns) - 1)]

    def _head(self, length: int) -> None:
        self.send_response(int(self._turn("status", "200")))
        for header in self.asked.get("header", ()):
            self.send_header(*header.split(":", 1))
        self.send_header("Content-Type", self.asked.get("type", ["application/json"])[0])
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _answer_with(self, body: bytes) -> None:
        self._head(len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def act_answer(self) -> None:
        """Answer at once."""
        self._answer_with(self.asked.get("body", ['{"ok": true}'])[0].encode("latin-1"))

    def act_slow(self) -> None:
        """Answer late."""
        time.sleep(float(self.asked["seconds"][0]))
        self.act_answer()

    def act_drip(self) -> None:
        """Answer without end."""
        self._head(1 << 20)
        while True:
            self.wfile.write(b".")
            time.sleep(0.05)

    def act_reset(self) -> None:
        """Reset the connection."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.act_close()

    def act_close(self) -> None:
        """Close the connection."""
        self.close_connection = True
        os.close(self.connection.detach())

    def act_half(self) -> None:
        """Send less than was promised."""
        self._head(1000)
        self.wfile.write(b"half")
        self.close_connection = True

    def act_huge(self) -> None:
        """Send far too much."""
        self._answer_with(self.asked.get("fill", ["x"])[0].encode() * HUGE)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Give the date of the reply."""
        return self.asked.get("date", [super().date_time_string(timestamp)])[0]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Quiet(ThreadingHTTPServer):
    """A caller that hangs up is nothing to tell of."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Say nothing."""


class Receiver:
    """The receiver as a test holds it: start it, stop it, start it again at the same port."""

    def __init__(self, log: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        self._log = log
        self.host = host
        self.port = port
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start, and wait until it listens."""
        command = [sys.executable, __file__, str(self._log), self.host, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def stop(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def requests(self, path: str | None = None) -> list[dict[str, Any]]:
        """Give what it was sent, in order; everything, or to one path."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [seen for seen in map(json.loads, lines) if path in {None, seen["path"]}]


class Spot:
    """One path of a receiver, a test's own: nobody else sends to it."""

    def __init__(self, receiver: Receiver, path: str) -> None:
        self._receiver = receiver
        self._path = path

    def url(self, *, host: str | None = None, **asked: Any) -> str:
        """Give its URL; what is asked for happens there. `host` names the receiver otherwise."""
        where = f"{host or self._receiver.host}:{self._receiver.port}"
        return f"http://{where}{self._path}?{urlencode(asked, doseq=True)}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What it was sent, in order."""
        return self._receiver.requests(self._path)


def serve(log: str, host: str, port: str) -> None:
    """Receive until killed."""
    Answering.log_file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    with Quiet((host, int(port)), Answering) as server:
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    serve(*sys.argv[1:])
