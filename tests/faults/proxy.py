"""A stretch of network between the product and PostgreSQL that can be cut, swallow answers, or fall silent.

with Proxy(server.url) as proxy:
    proxy.url                           as the server's, through here
    proxy.cut()                         end every connection
    proxy.fall_silent()                 no byte passes, and nobody is told: not now, not by new connections
    proxy.heal()                        new connections are served; those that fell silent stay so
    proxy.swallow_answer(b"COMMIT")     pass this on once, then fall silent towards the client, or cut it off
    proxy.swallow(b"COMMIT")            do not even pass it on
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

SIZE = 1 << 16


class Link:
    """One connection through here."""

    def __init__(self, client: socket.socket, server: socket.socket, heard: Callable[[Link, bytes], bool]) -> None:
        self._client = client
        self._server = server
        self._heard = heard
        self.silent_to_server = False
        self.silent_to_client = False
        self.cut_at_answer = False
        self.last_words = b""
        for target in (self._up, self._down):
            threading.Thread(target=target, daemon=True).start()

    def _up(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(SIZE):
                if self._heard(self, data) and not self.silent_to_server:
                    self._server.sendall(data)
        if not self.silent_to_server:
            self.cut()

    def _down(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(SIZE):
                if self.cut_at_answer:
                    self._client.sendall(self.last_words)
                    break
                if not self.silent_to_client:
                    self._client.sendall(data)
        if not self.silent_to_client:
            self.cut()

    def fall_silent(self) -> None:
        """Pass nothing on from now, in either direction, and tell nobody."""
        self.silent_to_server = self.silent_to_client = True

    def cut(self) -> None:
        """End both connections."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Stands between, on a loopback port of its own."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self._target = str(Path(query.pop("host")) / ".s.PGSQL.5432")
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.url = parts._replace(netloc=f"postgres@{host}:{port}", query=urlencode(query, safe="/")).geturl()
        self._links: list[Link] = []
        self._silent = False
        self._wanted: bytes | None = None
        self._after = ""
        self._skip = 0
        self._last_words = b""
        self.met = 0
        """How often what was looked for came by."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._target)
                except OSError:
                    client.close()
                    server.close()
                    continue
                link = Link(client, server, self._heard)
                if self._silent:
                    link.fall_silent()
                self._links.append(link)

    def _heard(self, link: Link, data: bytes) -> bool:
        """Look for what is wanted; tell whether to pass this on."""
        if self._wanted is None or self._wanted not in data or link.silent_to_server:
            return True
        self.met += 1
        if self.met <= self._skip:
            return True
        self._wanted = None
        if self._after == "swallow":
            link.fall_silent()
            return False
        if self._after == "cut":
            link.cut_at_answer, link.last_words = True, self._last_words
        else:
            link.silent_to_client = True
        return True

    def cut(self) -> None:
        """End every connection."""
        for link in self._links:
            link.cut()
        self._links.clear()

    def fall_silent(self) -> None:
        """Pass nothing on until `heal`."""
        self._silent = True
        for link in self._links:
            link.fall_silent()

    def heal(self) -> None:
        """Serve new connections."""
        self._silent = False

    def swallow_answer(self, wanted: bytes, *, skip: int = 0, cut: bool = True, last_words: bytes = b"") -> None:
        """Pass the n-th of these on, but not its answer: cut the client off, or leave it waiting.

        A pooler has `last_words` of its own for a client that it cuts off.
        """
        self._after = "cut" if cut else "deafen"
        self._last_words = last_words
        self.met, self._skip, self._wanted = 0, skip, wanted

    def swallow(self, wanted: bytes, *, skip: int = 0) -> None:
        """Do not pass the n-th of these on, nor anything after it."""
        self._after = "swallow"
        self.met, self._skip, self._wanted = 0, skip, wanted
