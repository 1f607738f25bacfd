"""A receiver on loopback that records each request before it answers, and can have its sender killed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from standfast.testing.kill_steps import Steps
from standfast.testing.nursery import report

ANSWER = b'{"ok": true}'


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, effects: Path, step: Steps) -> None:
        self.effects = effects
        self.step = step
        super().__init__(("127.0.0.1", 0), _Answering)

    def handle_error(self, *_: Any) -> None:
        """Ignore errors: senders are killed here."""


class _Answering(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def _receive(self) -> None:
        """Read, record, answer: a sender can be killed before the request is recorded, or before it is answered."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = urlsplit(self.path).path.strip("/")
        key = self.headers.get("Idempotency-Key") or self.path
        self.server.step(f"before request {name}", key)
        report(self.server.effects, synced=True, name=name, key=key)
        self.server.step(f"after request {name}", key)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    # The names http.server looks for.
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _receive  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving(effects: Path, step: Steps) -> Iterator[str]:
    """Receive requests while the block lasts; yield the URL."""
    with _Server(effects, step) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="crash-receiver", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
