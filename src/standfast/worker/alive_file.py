"""A file that is touched while a worker is alive, for probes that can only look at files."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from standfast.concurrency.loops import Loop
from standfast.errors import ConfigurationError

log = logging.getLogger("standfast.worker")

EVERY = 2.0
"""Seconds between two touches."""
WITHIN = 30.0
"""A file that was not touched for so many seconds counts as the file of a dead worker."""
LONGEST_CLAIM = 60.0
"""Seconds after which a claim without an answer counts as stuck. A store that refuses a claim answers sooner."""


class AliveFile:
    """Touches a file every two seconds, as long as `is_alive` says so. A stuck event loop touches nothing."""

    def __init__(self, path: Path, is_alive: Callable[[], bool]) -> None:
        self._path = path
        self._is_alive = is_alive
        self._refused = False

    def begin(self) -> None:
        """Touch the file for the first time; refuse a path that cannot be written."""
        try:
            self._path.touch()
        except OSError as error:
            raise ConfigurationError(f"--alive: {self._path} cannot be written: {error.strerror or error}") from error

    async def touch(self) -> None:
        """Touch the file if the worker is alive. A disk that is full for a while does not end the worker."""
        if not self._is_alive():
            return
        try:
            self._path.touch()
        except OSError as error:
            if not self._refused:
                log.warning("the file %s cannot be touched, so that probes will fail: %s", self._path, error)
            self._refused = True
        else:
            self._refused = False

    def end(self) -> None:
        """Remove the file: the worker is ending."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


@asynccontextmanager
async def kept_alive(path: str | None, is_alive: Callable[[], bool]) -> AsyncIterator[None]:
    """Keep a file touched during a block; do nothing without a path."""
    if path is None:
        yield
        return
    file = AliveFile(Path(path), is_alive)
    file.begin()
    touching = Loop("alive file", EVERY, file.touch)
    touching.start()
    try:
        yield
    finally:
        await touching.stop()
        file.end()


def why_not_alive(path: Path, within: float) -> str | None:
    """Return why a worker does not count as alive, judging by its file; None if it does."""
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return f"{path} is not there: its worker has not started, or has ended"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    if abs(age) <= within:
        return None
    if age < 0:
        return f"{path} was touched {-age:.0f} s in the future: the clock was set back"
    return f"{path} was last touched {age:.0f} s ago, more than {within:g} s: its worker hangs or has died"
