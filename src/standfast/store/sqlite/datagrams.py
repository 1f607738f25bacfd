"""Sockets that processes of one host hear each other by, each found by a file in a directory that they share.

UNIX sockets are such files themselves. Where the system has none, a listener has a port of the loopback address, and
its file's name ends with that. Nothing tells then that a listener is gone, so it renews its file while it listens, and
an old one is removed.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from standfast.portable import HAS_UNIX_SOCKETS

LOOPBACK = "127.0.0.1"
RENEWED_EVERY = 3600.0
FORGOTTEN_AFTER = 24 * RENEWED_EVERY

Address = str | tuple[str, int]


class Datagrams(Protocol):
    """One way to send a few bytes to other processes."""

    def sender(self) -> socket.socket:
        """Give a socket that sends."""

    def listener(self, directory: Path) -> tuple[socket.socket, str]:
        """Give a socket that hears, and the file by which others find it."""

    def address(self, file: str) -> Address | None:
        """Give where a listener's file leads; None if it is no such file."""


class UnixDatagrams:
    """UNIX sockets."""

    def sender(self) -> socket.socket:
        """Give a socket that sends."""
        return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def listener(self, directory: Path) -> tuple[socket.socket, str]:
        """Give a socket that hears, and its file."""
        file = str(directory / _new_name())
        listener = self.sender()
        listener.bind(file)
        return listener, file

    def address(self, file: str) -> Address | None:
        """Give the file itself: it is the address."""
        return file


class LoopbackDatagrams:
    """Ports of the loopback address. Whoever can reach them can only wake a worker."""

    def sender(self) -> socket.socket:
        """Give a socket that sends."""
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def listener(self, directory: Path) -> tuple[socket.socket, str]:
        """Give a socket that hears, and the file that names its port; remove the files of those long gone."""
        _remove_forgotten(directory)
        listener = self.sender()
        listener.bind((LOOPBACK, 0))
        listener.settimeout(RENEWED_EVERY)
        file = directory / f"{_new_name()}-{listener.getsockname()[1]}"
        file.touch(mode=0o600)
        return listener, str(file)

    def address(self, file: str) -> Address | None:
        """Read the port in a file's name."""
        port = file.rpartition("-")[2]
        return (LOOPBACK, int(port)) if port.isdecimal() and 0 < int(port) < 1 << 16 else None


DATAGRAMS: Datagrams = UnixDatagrams() if HAS_UNIX_SOCKETS else LoopbackDatagrams()


def _new_name() -> str:
    return f"{os.getpid()}-{os.urandom(4).hex()}"


def _remove_forgotten(directory: Path) -> None:
    for file in directory.iterdir():
        with suppress(OSError):  # another process removes it too
            if time.time() - file.stat().st_mtime > FORGOTTEN_AFTER:
                file.unlink()
