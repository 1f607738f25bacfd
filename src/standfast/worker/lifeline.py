"""Tells whether a process of this host is alive: each holds a lock on its own file, which the kernel frees at its end.

A name is never used twice. A lock that cannot be seen from here, as in another container or on another host, says
nothing: then leases decide. A frozen process keeps its lock. A forked child closes the descriptor it inherits, and a
program that is started never gets it.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from standfast import portable
from standfast.clock import UNKNOWN_BOOT
from standfast.concurrency.locks import ForkableLock
from standfast.wings.commands.orphans import Identity, identify, process_state, this_boot

KEPT_FOR = 3600.0
"""Seconds for which the file of a dead process is kept: by then every store has learnt of the death."""
LARGEST = 4096

Verdict = Literal["alive", "dead", "unknown"]


def directories() -> list[Path]:
    """Return where locks are kept: with the user's state, or with temporary files if that cannot be written.

    Never in a directory that belongs to another user, who could replace what is in it.
    """
    return [
        directory for directory in _places() if not directory.exists() or directory.stat().st_uid == portable.user_id()
    ]


def _places() -> list[Path]:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    own = Path(tempfile.gettempdir()) / f"standfast-{portable.user_id()}"
    with suppress(RuntimeError):  # a user without a home
        return [Path(state).expanduser() / "standfast" / "alive", own / "alive"]
    return [own / "alive"]


class Lifeline:
    """The lock of one process, taken once and held until the process ends."""

    def __init__(self) -> None:
        self._lock = ForkableLock()
        self._descriptor = -1
        self._path: Path | None = None
        self.own_name: str | None = None
        """The lock's name once it is held: a plain attribute, because it is read every second."""
        self._tried = False

    def hold(self) -> str | None:
        """Take the lock; return its name, or None if that fails: then only leases show that this process lives."""
        with self._lock:
            for directory in [] if self._tried else directories():
                with suppress(OSError):
                    self._take(directory)
                    break
            self._tried = True
            return self.name

    @property
    def name(self) -> str | None:
        """The name of this process's lock, if it holds one."""
        return None if self._path is None else self._path.name

    def _take(self, directory: Path) -> None:
        """Lock a file before it gets its name: the file of a living process is never seen unlocked."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = os.urandom(16).hex()
        hidden = directory / f".{name}"
        descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | portable.OWN_HANDLE, 0o600)
        try:
            portable.lock(descriptor, portable.EXCLUSIVE)
            os.write(descriptor, msgspec.json.encode(identify(os.getpid())))
            hidden.rename(directory / name)
        except OSError:
            os.close(descriptor)
            hidden.unlink(missing_ok=True)
            raise
        self._descriptor, self._path, self.own_name = descriptor, directory / name, name

    def leave(self) -> None:
        """Remove the file when the process ends normally; the kernel frees the lock itself."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Close what a fork inherited, so that no child keeps a dead parent's lock; it takes its own when it works."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor, self._path, self.own_name, self._tried = -1, None, None, False


_ours = Lifeline()
portable.at_fork(after_in_child=_ours.forget)
atexit.register(_ours.leave)


def hold() -> str | None:
    """Take this process's lock; return its name, or None if no lock can be held."""
    return _ours.hold()


def verdict(name: str) -> Verdict:
    """Return whether the process that holds or held this lock is alive."""
    for directory in directories():
        found = _verdict_at(directory / name)
        if found is not None:
            return found
    return "unknown"


def _verdict_at(path: Path) -> Verdict | None:
    """Judge by one file; None if it does not exist or cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | portable.OWN_HANDLE)
    except OSError:
        return None
    try:
        portable.lock(descriptor, portable.SHARED)  # shared: two processes that look do not see each other's lock
        written = os.read(descriptor, LARGEST)
    except BlockingIOError:
        return "alive"
    finally:
        os.close(descriptor)
    return _without_lock(written)


def _without_lock(written: bytes) -> Verdict:
    """Judge a process whose lock is free. If it still runs, some code in it closed the descriptor."""
    try:
        known = msgspec.json.decode(written, type=Identity)
    except msgspec.DecodeError:
        return "unknown"
    if known.boot != this_boot() or known.boot == UNKNOWN_BOOT:
        return "unknown"  # another machine's, or an earlier boot's: this kernel does not know its locks
    return "alive" if process_state(known) == "runs" else "dead"


class DeathWatch:
    """Finds out which processes of this host have died, by trying each lock that may still be held."""

    def __init__(self) -> None:
        self._dead: dict[str, float] = {}
        self._directories = directories()
        self.thread = ThreadPoolExecutor(1, "standfast-deaths")
        """The thread it looks in: handlers may occupy every thread of the loop's own executor."""

    @property
    def dead(self) -> tuple[str, ...]:
        """The processes known to be dead, by the names of their locks; kept at least as long as their files."""
        return tuple(self._dead)

    def look(self) -> bool:
        """Look at every lock; return whether a process has died since the last look."""
        known, now = len(self._dead), time.monotonic()
        for directory in self._directories:
            with suppress(OSError):
                # This runs every second: skip this process and those known to be dead.
                for name in {*os.listdir(directory)} - self._dead.keys() - {_ours.own_name}:  # noqa: PTH208
                    if not name.startswith(".") and _verdict_at(directory / name) == "dead":
                        self._dead[name] = now
        if self._dead and now - next(iter(self._dead.values())) > KEPT_FOR:  # in the order of their deaths
            self._forget_old(now)
        return len(self._dead) > known

    def _forget_old(self, now: float) -> None:
        """Remove the files of processes that died long ago, and forget them some time after that."""
        for name, died in [*self._dead.items()]:
            if now - died <= KEPT_FOR:
                return
            for directory in self._directories:
                with suppress(OSError):
                    (directory / name).unlink(missing_ok=True)
            if now - died > 2 * KEPT_FOR:
                del self._dead[name]
