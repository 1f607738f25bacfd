"""Is a process of this host alive? Each one that works holds a lock on a file of its own, and the kernel lets go of it.

A name never comes twice. A lock that cannot be seen from here, as in another container or on another host, says
nothing: then leases decide. A frozen process holds its lock. A forked child closes what it inherits, and a program that
is started never gets it.
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
"""Seconds after which the file of a process that is seen dead is removed: until then every store has learnt of it."""
LARGEST = 4096

Verdict = Literal["alive", "dead", "unknown"]


def directories() -> list[Path]:
    """Name where locks are kept: with the user's state, or with temporary files where that cannot be written.

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
    """The lock of one process, taken once and held until it ends."""

    def __init__(self) -> None:
        self._lock = ForkableLock()
        self._descriptor = -1
        self._path: Path | None = None
        self.own_name: str | None = None
        """Its name once it is held: a plain attribute, because it is read every second."""
        self._tried = False

    def hold(self) -> str | None:
        """Hold it; give its name, or None where no lock can be held: then leases alone tell of this process."""
        with self._lock:
            for directory in [] if self._tried else directories():
                with suppress(OSError):
                    self._take(directory)
                    break
            self._tried = True
            return self.name

    @property
    def name(self) -> str | None:
        """What this process's lock is called, where it holds one."""
        return None if self._path is None else self._path.name

    def _take(self, directory: Path) -> None:
        """Lock a file before it has its name: a living process's file is never seen unlocked."""
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
        """Remove the file of a process that ends in order; the lock itself ends with it."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Close what a fork inherited, so that no child keeps a dead parent's lock; its own it takes when it works."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor, self._path, self.own_name, self._tried = -1, None, None, False


_ours = Lifeline()
portable.at_fork(after_in_child=_ours.forget)
atexit.register(_ours.leave)


def hold() -> str | None:
    """Hold this process's lock; give its name, or None where no lock can be held."""
    return _ours.hold()


def verdict(name: str) -> Verdict:
    """Tell whether the process that holds, or held, this lock is alive."""
    for directory in directories():
        found = _verdict_at(directory / name)
        if found is not None:
            return found
    return "unknown"


def _verdict_at(path: Path) -> Verdict | None:
    """Judge by one file; None where it is not there, or cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | portable.OWN_HANDLE)
    except OSError:
        return None
    try:
        portable.lock(descriptor, portable.SHARED)  # shared: those who look do not meet
        written = os.read(descriptor, LARGEST)
    except BlockingIOError:
        return "alive"
    finally:
        os.close(descriptor)
    return _without_lock(written)


def _without_lock(written: bytes) -> Verdict:
    """Judge a process whose lock is free. One that visibly goes on has lost it, to code that closes descriptors."""
    try:
        known = msgspec.json.decode(written, type=Identity)
    except msgspec.DecodeError:
        return "unknown"
    if known.boot != this_boot() or known.boot == UNKNOWN_BOOT:
        return "unknown"  # another machine's, or an earlier boot's: this kernel does not know its locks
    return "alive" if process_state(known) == "runs" else "dead"


class DeathWatch:
    """Looks which processes of this host died: one attempt at each lock that may still be held."""

    def __init__(self) -> None:
        self._dead: dict[str, float] = {}
        self._directories = directories()
        self.thread = ThreadPoolExecutor(1, "standfast-deaths")
        """Where it looks: handlers may have every thread of the loop's own."""

    @property
    def dead(self) -> tuple[str, ...]:
        """Those that are known to be dead, for as long as their files are kept."""
        return tuple(self._dead)

    def look(self) -> bool:
        """Look at every lock; tell whether anybody died since."""
        known, now = len(self._dead), time.monotonic()
        for directory in self._directories:
            with suppress(OSError):
                # Every second: what is known to be dead, and this process itself, cost nothing.
                for name in {*os.listdir(directory)} - self._dead.keys() - {_ours.own_name}:  # noqa: PTH208
                    if not name.startswith(".") and _verdict_at(directory / name) == "dead":
                        self._dead[name] = now
        if self._dead and now - next(iter(self._dead.values())) > KEPT_FOR:  # they stand in the order of their deaths
            self._forget_old(now)
        return len(self._dead) > known

    def _forget_old(self, now: float) -> None:
        """Remove the files of those that died long ago, and forget them some time after that."""
        for name, died in [*self._dead.items()]:
            if now - died <= KEPT_FOR:
                return
            for directory in self._directories:
                with suppress(OSError):
                    (directory / name).unlink(missing_ok=True)
            if now - died > 2 * KEPT_FOR:
                del self._dead[name]
