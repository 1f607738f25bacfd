"""One engine for each file in a process: two handles of two engines on one file would drop each other's locks."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from standfast.clock import Clock
from standfast.store.sqlite.engine import SqliteEngine
from standfast.store.sqlite.files import Files

_lock = threading.Lock()
_engines: dict[str, tuple[SqliteEngine, int]] = {}
_inherited: list[SqliteEngine] = []
"""Engines of the parent, kept alive after a fork and never touched: closing their handles would drop its locks."""


def acquire(path: str, clock: Clock) -> SqliteEngine:
    """Give the open engine of this file; `:memory:` is a new store each time."""
    if path == ":memory:":
        engine = SqliteEngine(Files(path), clock)
        engine.open()
        return engine
    key = str(Path(path).resolve())
    with _lock:
        if key not in _engines:
            engine = SqliteEngine(Files(key, inherited=bool(_inherited)), clock)
            engine.open()
            _engines[key] = (engine, 0)
        engine, users = _engines[key]
        _engines[key] = (engine, users + 1)
        return engine


def release(engine: SqliteEngine) -> None:
    """Close the engine when its last user lets go."""
    with _lock:
        for key, (known, users) in list(_engines.items()):
            if known is engine and users > 1:
                _engines[key] = (engine, users - 1)
                return
            if known is engine:
                del _engines[key]
    if engine not in _inherited:
        engine.close()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the parent's lock may have been held by a thread that is not here
    _lock = threading.Lock()
    _inherited.extend(engine for engine, _ in _engines.values())
    _engines.clear()


os.register_at_fork(after_in_child=_after_fork)
