"""One engine for each store in a process: handles of two engines on one file would drop each other's locks."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from standfast.clock import Clock
from standfast.errors import StoreUnavailable
from standfast.portable import at_fork
from standfast.store.engine import Engine
from standfast.store.places import Place
from standfast.store.scripts import RoundScripts

_lock = threading.Lock()
_engines: dict[str, tuple[Engine[Any], int]] = {}
_opened_here: weakref.WeakSet[Engine[Any]] = weakref.WeakSet()
"""Every engine that this process opened, including those in memory."""
_paused: list[Engine[Any]] = []
"""Engines without a handle, while this process forks."""
_spoiled: set[str] = set()
"""Stores whose engine was too busy to pause when this process was forked."""


def acquire(place: Place, clock: Clock, scripts: RoundScripts) -> Engine[Any]:
    """Return the open engine of this store; each one in memory is a new store."""
    key = place.key
    if key is None:
        return _opened(place, clock, scripts)
    if key in _spoiled:
        raise StoreUnavailable(
            f"this process was forked while {key} was busy, and cannot use it; start a new one", definite=True
        )
    with _lock:
        engine, users = _engines.get(key) or (_opened(place, clock, scripts), 0)
        _engines[key] = (engine, users + 1)
        return engine


def _opened(place: Place, clock: Clock, scripts: RoundScripts) -> Engine[Any]:
    engine = place.engine(clock, scripts)
    engine.open()
    _opened_here.add(engine)
    return engine


def release(engine: Engine[Any]) -> None:
    """Close the engine when its last user releases it."""
    with _lock:
        for key, (known, users) in list(_engines.items()):
            if known is engine and users > 1:
                _engines[key] = (engine, users - 1)
                return
            if known is engine:
                del _engines[key]
        engine.close()


def _before_fork() -> None:
    """Make every engine close its handles.

    A child that inherits a handle shares SQLite's notes about locks without holding the locks: it would open the file,
    and the parent's last close would delete the WAL under it, together with acknowledged work.
    """
    _lock.acquire()
    _paused.extend(engine for engine, _ in _engines.values() if engine.pause())


def _after_fork_in_parent() -> None:
    for engine in _paused:
        engine.resume()
    _paused.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - the lock is held, by the thread that forked
    _spoiled.update(path for path, (engine, _) in _engines.items() if engine not in _paused)
    for engine in _paused:
        engine.abandon()
    for engine in _opened_here:
        engine.abandoned = True
    _opened_here.clear()
    _paused.clear()
    _engines.clear()
    _lock = threading.Lock()


at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
