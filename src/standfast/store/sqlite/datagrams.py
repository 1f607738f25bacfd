"""Sockets that connect processes of one host; each is found by a file in a directory that they share.

UNIX sockets are such files themselves. Where the system has none, a listener has a port of the loopback address, and
the name of its file ends with the port. Then nothing shows that a listener is gone, so it renews its file while it
listens, and old files are removed.
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
    """A way to send a few bytes to other processes."""

    def sender(self) -> socket.socket:
        """Return a socket that sends."""

    def listener(self, directory: Path) -> tuple[socket.socket, str]:
        """Return a socket that listens, and the file by which other processes find it."""

    def address(self, file: str) -> Address | None:
        """Return the address that a listener's file stands for; None if it is no such file."""


class UnixDatagrams:
    """UNIX sockets."""

    def sender(self) -> socket.socket:
        """Return a socket that sends."""
        return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def listener(self, directory: Path) -> tuple[socket.socket, str]:
        """Return a socket that listens, and its file."""
        file = str(directory / _new_name())
        listener = self.sender()
        listener.bind(file)
        return listener, file

    def address(self, file: str) -> Address | None:
        """Return the file itself, which is the address."""
        return file


class LoopbackDatagrams:
    """Ports of the loopback address. A program that can reach them can only wake a worker."""

    def sender(self) -> socket.socket:
        """Return a socket that sends."""
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def listener(self, directory: Path) -> tuple[socket.socket, str]:
        """Return a socket that listens, and the file that names its port; remove the files of listeners long gone."""
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
        with suppress(OSError):  # another process is removing it too
            if time.time() - file.stat().st_mtime > FORGOTTEN_AFTER:
                file.unlink()
