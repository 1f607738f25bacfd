"""Fairness between processes: whoever waits for the write lock holds a baton, and passes it on once it has the lock.

SQLite's busy handler alone lets one process win five to thirty times as often as another. Here all who wait ask for the
same file lock, each as often as the others, and only its holder asks SQLite, so that nobody is ahead for long.
"""

from __future__ import annotations

import fcntl
import os
import time

LONGEST_WAIT = 1.0
"""Seconds to wait for a turn; a process that was frozen with the baton in its hand must not stop the others."""
PAUSE = 0.0002


class Baton:
    """A lock on a file beside the database, held only between asking for the write lock and getting it."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, *, waits: bool) -> bool:
        """Take this process's turn to ask; tell whether that went well.

        It waits for the others, but not for long: fairness is not worth a call that hangs.
        """
        until = time.monotonic() + (LONGEST_WAIT if waits else 0.0)
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(PAUSE)
            else:
                return True

    def pass_on(self) -> None:
        """Let the next process ask."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
