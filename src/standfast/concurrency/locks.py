"""Locks that are free in a forked child: the thread that would release an inherited lock does not exist there."""

from __future__ import annotations

import threading
from types import TracebackType
from weakref import WeakSet

from standfast.portable import at_fork


class ForkableLock:
    """A lock within one process; in a forked child it is free."""

    def __init__(self) -> None:
        self.renew()
        _locks.add(self)

    def renew(self) -> None:
        """Free the lock, even if it is held."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_locks: WeakSet[ForkableLock] = WeakSet()


def _renew_in_child() -> None:
    for lock in _locks:
        lock.renew()


at_fork(after_in_child=_renew_in_child)
