"""Whether this host ever reached a server: only then is a name that cannot be found an outage, and no mistake."""

from __future__ import annotations

import os
from pathlib import Path


class ReachedServer:
    """A note beside the spool, made when the server was first reached."""

    def __init__(self, spool: Path, target: str) -> None:
        self._path = spool.with_name(f"{spool.name}-reached")
        self._target = target
        self._noted = False

    def before(self) -> bool:
        """Tell whether this process, or one before it on this host, reached the server."""
        try:
            return self._noted or self._path.read_text(encoding="utf-8") == self._target
        except (OSError, ValueError):
            return False

    def note(self) -> None:
        """Write down that it is reached. Where that cannot be written, this process remembers it alone."""
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
