"""Other processes on the same file: each gets its turn at the write lock, and learns of work that the others bring.

Turns: with SQLite's busy handler alone, one process wins five to thirty times as often as another. Here all waiting
processes ask for one file lock, the baton, equally often, and only its holder asks SQLite. So none is ahead for
long.

Work: after a commit, one datagram goes to each listener and names the queues that have work. Listeners are found by
files in a directory next to the database: UNIX sockets or, where the system has none, names that end with a port of the
loopback address. A datagram is only a hint. Losing one costs latency, never a job: workers also poll.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import msgspec

from standfast.portable import EXCLUSIVE, FREE, OWN_HANDLE, lock, user_id
from standfast.store.hints import Hint
from standfast.store.sqlite.datagrams import DATAGRAMS, Address
from standfast.store.sqlite.handle import patience

log = logging.getLogger("standfast.store")

LONGEST_WAIT = 1.0
"""Seconds to wait for a turn. A process that was frozen while it held the baton must not stop the others."""
PAUSE = 0.0002
LONGEST_SOCKET_PATH = 90
"""UNIX socket addresses have at most 108 bytes, and the file name needs some of them."""

_decode = msgspec.json.Decoder(Hint).decode


class Baton:
    """A lock on a file next to the database, held only from asking for the write lock until getting it."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OWN_HANDLE, 0o600)
        self.patience = patience()
        """How the writer's connection waits for the write lock."""

    def take(self, *, waits: bool) -> bool:
        """Take this process's turn to ask for the write lock; return whether that succeeded.

        It waits for other processes, but not for long: fairness is not worth a call that hangs.
        """
        until = time.monotonic() + (LONGEST_WAIT if waits else 0.0)
        while True:
            try:
                lock(self.descriptor, EXCLUSIVE)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(PAUSE)
            else:
                return True

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def begin(connection: apsw.Connection, baton: Baton | None, *, waits: bool = True) -> None:
    """Take the write lock, in turn with other processes; raise BusyError at once if that must not wait."""
    if baton is None:
        connection.execute("BEGIN IMMEDIATE")
        return
    is_ours = baton.take(waits=waits)
    if not (is_ours or waits):
        raise apsw.BusyError("another process waits for its turn")
    try:
        if not waits:
            connection.set_busy_handler(None)
        connection.execute("BEGIN IMMEDIATE")
    finally:
        if not waits:
            connection.set_busy_handler(baton.patience)
        if is_ours:
            lock(baton.descriptor, FREE)  # now the next process may ask


def bell_directory(path: str) -> Path:
    """Return a directory next to the database, or in the temporary directory if that path is too long for a socket."""
    beside = Path(f"{path}-wake")
    if len(os.fsencode(beside)) <= LONGEST_SOCKET_PATH:
        return beside
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"standfast-{user_id()}-{name}"


class DatagramNotifier:
    """Notifies every other process that listens on the same database."""

    def __init__(self, path: str) -> None:
        self._directory = bell_directory(path)
        self._sender = DATAGRAMS.sender()
        self._sender.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        self._own: str | None = None
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._listeners: list[tuple[str, Address]] = []
        self._seen_change = -1

    def notify(self, hint: Hint) -> None:
        """Notify the other processes; forget a listener that is gone. A hint is never worth an error to its sender."""
        try:
            change = os.stat(self._directory).st_mtime_ns  # noqa: PTH116 - after every commit, and a Path is slow
            if change != self._seen_change:
                self._seen_change = change
                self._listeners = self._others()
        except OSError:  # no other process listens
            return
        if self._listeners:
            self._send(msgspec.json.encode(hint))

    def _others(self) -> list[tuple[str, Address]]:
        files = [str(file) for file in self._directory.iterdir() if str(file) != self._own]
        return [(file, address) for file in files if (address := DATAGRAMS.address(file)) is not None]

    def _send(self, message: bytes) -> None:
        for file, address in self._listeners:
            try:
                self._sender.sendto(message, address)
            except ConnectionRefusedError:
                with suppress(OSError):
                    Path(file).unlink(missing_ok=True)
            except OSError:
                continue  # it has enough hints already, or has just left

    def listen(self, listener: Callable[[Hint], None]) -> None:
        """Start to listen to other processes, on a separate thread. If that fails, work is found later, by polling."""
        if self._listener is not None:
            return
        try:
            self._listen(listener)
        except OSError as error:
            log.warning("other processes are not heard, so their work starts later: %s", error)

    def _listen(self, callback: Callable[[Hint], None]) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        listener, own = self._listener, self._own = DATAGRAMS.listener(self._directory)
        self._thread = threading.Thread(
            target=self._hear, args=(listener, own, callback), name="standfast-bell", daemon=True
        )
        self._thread.start()

    @staticmethod
    def _hear(listener: socket.socket, own: str, callback: Callable[[Hint], None]) -> None:
        while True:
            try:
                message = listener.recv(65536)
            except TimeoutError:
                with suppress(OSError):
                    os.utime(own)  # shows that this listener is alive
                continue
            if not message:
                return
            try:
                hint = _decode(message)
            except msgspec.DecodeError:
                continue  # not sent by standfast
            callback(hint)

    def close(self) -> None:
        """Stop listening and notifying, even if the socket's file was deleted."""
        if self._listener is not None and self._own is not None:
            with suppress(OSError):
                # Wakes the listener if a shutdown of its socket does not.
                self._sender.sendto(b"", DATAGRAMS.address(self._own) or self._own)
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                Path(self._own).unlink()
            if self._thread is not None:
                self._thread.join(timeout=1)
            self._listener.close()
        self._sender.close()
