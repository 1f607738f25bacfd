"""A deliberately flaky receiver, in its own process: `python -m standfast.demo.demo_receiver BOOKS`.

It prints its port, and receives until its standard input ends. The fate of a request is derived from its key and its
number, so that every run is as bad as the last. Below `/once/` it recognises a key that it has already served; below
`/again/` it does not, and does everything it is asked to.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
import threading
import time
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standfast.demo.books import Did, Entry, line

MOODS = {
    "busy": 80,  # 503, and nothing was done
    "stumbles": 40,  # does it, then answers 500
    "drops": 20,  # resets the connection, and nothing was done
    "hangs_up": 20,  # does it, then resets the connection
    "dawdles": 10,  # does it, and answers after the caller has given up
}
"""How many of a thousand requests meet each mood; all others are served properly."""
REFUSED = 10
"""How many of a thousand keys are refused for good, with 422."""
IDLE_MOODS = frozenset({"busy", "drops", "refuses"})
"""The moods in which nothing is done."""
WORK = 0.005
"""Seconds that serving a request takes."""
DAWDLE = 1.5
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no delay: closing the socket sends a reset."""


def mood(key: str, visit: int) -> str:
    """Return the mood that the n-th request with a key meets."""
    if _draw(key) < REFUSED:
        return "refuses"
    drawn = _draw(f"{key} {visit}")
    for name, share in MOODS.items():
        if drawn < share:
            return name
        drawn -= share
    return "serves"


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) % 1000


class Ledger:
    """What was done so far, and the file that records it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._visits: Counter[str] = Counter()
        self._served: set[str] = set()
        self._lock = threading.Lock()

    def enter(self, key: str, *, recognises: bool) -> str:
        """Do what is asked, or not, and record that; return the mood to answer in."""
        with self._lock:
            self._visits[key] += 1
            drawn = mood(key, self._visits[key])
            did: Did = "nothing" if drawn in IDLE_MOODS else "effect"
            if did == "effect" and recognises and key in self._served:
                did = "recognised"
            self._served.update([key] if did == "effect" else [])
            os.write(self._file, line(Entry(key, did, drawn)))
        return drawn


class Flaky(BaseHTTPRequestHandler):
    """Records each request, then answers in its mood."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    ledger: Ledger

    def do_POST(self) -> None:
        """Receive one request."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(WORK)
        drawn = self.ledger.enter(self.headers.get("Idempotency-Key", ""), recognises=self.path.startswith("/once/"))
        getattr(self, f"_{drawn}", self._serves)()

    def _serves(self) -> None:
        self._answer(HTTPStatus.OK)

    def _refuses(self) -> None:
        self._answer(HTTPStatus.UNPROCESSABLE_ENTITY)

    def _busy(self) -> None:
        self._answer(HTTPStatus.SERVICE_UNAVAILABLE)

    def _stumbles(self) -> None:
        self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _drops(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.close_connection = True
        os.close(self.connection.detach())

    _hangs_up = _drops

    def _dawdles(self) -> None:
        time.sleep(DAWDLE)
        self._serves()

    def _answer(self, status: HTTPStatus) -> None:
        body = b"{}"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Ignores errors, since callers that hang up are expected."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Say nothing."""


def main(path: str) -> None:
    """Receive until standard input ends, so that this process never outlives its parent."""
    Flaky.ledger = Ledger(path)
    with Server(("127.0.0.1", 0), Flaky) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
