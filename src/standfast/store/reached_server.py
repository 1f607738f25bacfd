"""Whether this host ever reached a server: only then is a host name that cannot be found an outage, not a mistake."""

from __future__ import annotations

import os
from pathlib import Path


class ReachedServer:
    """A note next to the spool, made when the server was first reached."""

    def __init__(self, spool: Path, target: str) -> None:
        self._path = spool.with_name(f"{spool.name}-reached")
        self._target = target
        self._noted = False

    def before(self) -> bool:
        """Return whether this process, or an earlier one on this host, reached the server."""
        try:
            return self._noted or self._path.read_text(encoding="utf-8") == self._target
        except (OSError, ValueError):
            return False

    def note(self) -> None:
        """Record that the server was reached. If the note cannot be written, only this process remembers it."""
        if self.before():
            self._noted = True
            return
        self._noted = True
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            made.write_text(self._target, encoding="utf-8")
            made.replace(self._path)
        except OSError:
            return
