"""Fairness between processes: whoever waits for the write lock holds a baton, and passes it on once it has the lock.

SQLite's busy handler alone lets one process win five to thirty times as often as another. Here all who wait ask for the
same file lock, each as often as the others, and only its holder asks SQLite, so that nobody is ahead for long.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WAIT = 1.0
"""Seconds to wait for a turn; a process that was frozen with the baton in its hand must not stop the others."""
PAUSE = 0.0002


class Baton:
    """A lock on a file beside the database, held only between asking for the write lock and getting it."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this process's turn to ask, but not for long: fairness is not worth a call that hangs."""
        took = self._take(time.monotonic() + LONGEST_WAIT)
        try:
            yield
        finally:
            if took:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @contextmanager
    def turn_now(self) -> Iterator[bool]:
        """Take the turn if no other process waits for it; tell whether that is so."""
        took = self._take(0.0)
        try:
            yield took
        finally:
            if took:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _take(self, until: float) -> bool:
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                time.sleep(PAUSE)
            else:
                return True

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
