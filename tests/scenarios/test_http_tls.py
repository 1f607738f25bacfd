"""HTTP jobs over TLS: delivered to a receiver that proves who it is, and not a byte to one that does not."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from standfast import Standfast
from standfast.wings.http import client
from tests.waiting import ended, failure_of


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[trustme.CA]:
    """Give an authority that this process trusts while the test runs."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    client.trusted.cache_clear()
    yield made
    client.trusted.cache_clear()


@contextmanager
def receiving(certificate: trustme.LeafCert) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Give the address of a receiver with this certificate, and the requests that it got."""
    got: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Say nothing of a client that hangs up, because it does not trust this receiver."""

    with Server(("127.0.0.1", 0), Receiver) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_address[1]}", got
        server.shutdown()


@pytest.fixture
def sf(tmp_path: Path) -> Standfast:
    return Standfast(tmp_path / "queue.db")


async def test_requests_over_tls_are_delivered(sf: Standfast, authority: trustme.CA):
    sf.queue("hooks", destinations=["localhost"])
    with receiving(authority.issue_cert("localhost")) as (address, got):
        async with sf, sf.worker():
            for number in (1, 2):
                sent = await sf.enqueue_http("hooks", "POST", f"{address}/hook?n={number}", body={"n": number})
                assert (await ended(sf, sent.id)).state == "completed"
    assert got == [("/hook?n=1", b'{"n":1}'), ("/hook?n=2", b'{"n":2}')]


@pytest.mark.parametrize("doubt", ["another name", "an unknown authority"])
async def test_nothing_is_sent_to_a_receiver_that_cannot_prove_who_it_is(
    sf: Standfast, authority: trustme.CA, doubt: str
):
    sf.queue("hooks", destinations=["localhost"], attempts=1)
    issuer, name = (authority, "other.example") if doubt == "another name" else (trustme.CA(), "localhost")
    with receiving(issuer.issue_cert(name)) as (address, got):
        async with sf, sf.worker():
            job = await ended(sf, (await sf.enqueue_http("hooks", "POST", f"{address}/hook", body={})).id)
    failure = failure_of(job)
    assert (job.state, failure.landed, failure.cause, got) == ("dead", "no", "dependency_unavailable", [])
