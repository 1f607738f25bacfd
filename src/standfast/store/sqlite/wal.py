"""Keep the WAL small: one that grew during a long read shrinks again, and health names what keeps it large."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from standfast.store.sqlite.handle import LARGEST_WAL, patience
from standfast.store.sqlite.holders import readers_of

TRY_AGAIN_AFTER = 1.0
LONGEST_WAIT = 0.02
"""Seconds that the writer waits for readers; not more, because it has work to do."""
LONG_READ = 1.0
"""Seconds after which a read in this process is reported."""


class Wal:
    """The WAL of one file; `path` is None for a store without a WAL."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._try_at = 0.0
        self._reads: dict[str, float] = {}

    @property
    def size(self) -> int:
        """The size of the WAL in bytes."""
        try:
            return 0 if self._path is None else os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 - in every round
        except OSError:
            return 0

    def relieve(self, connection: apsw.Connection, size: int) -> None:
        """Let a WAL that has grown be overwritten from its start; the commit after that cuts it to its usual size.

        A checkpoint that does not wait would never finish while reads overlap.
        """
        now = time.monotonic()
        if size <= LARGEST_WAL or now < self._try_at:
            return
        self._try_at = now + TRY_AGAIN_AFTER
        connection.set_busy_handler(patience(LONGEST_WAIT))
        try:
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        finally:
            connection.set_busy_handler(patience())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep a note of a read in this process while it lasts."""
        name = threading.current_thread().name
        self._reads[name] = time.monotonic()
        try:
            yield
        finally:
            self._reads.pop(name, None)

    def held_by(self) -> list[str]:
        """Return the threads and processes that read an old snapshot."""
        if self._path is None:
            return []
        now = time.monotonic()
        own = [(name, now - since) for name, since in [*self._reads.items()] if now - since > LONG_READ]
        return [
            *(f"thread {name} of process {os.getpid()}, for {age:.0f} s" for name, age in own),
            *readers_of(self._path),
        ]
