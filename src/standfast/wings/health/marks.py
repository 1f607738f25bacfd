"""What workers marked a moment ago: handlers that block their event loop, and ends that they cannot write."""

from __future__ import annotations

from standfast.wings.health.scripts import Facts
from standfast.worker.upkeep import BLOCKED

MARKS_SHOWN = 60.0
"""Seconds for which a mark is shown."""


def blocked_by(facts: Facts, now: float) -> tuple[str, ...]:
    """Name the handlers, queue/handler, that blocked their worker's event loop a moment ago, or still do."""
    return tuple(sorted({handler for _, handler in blocked_workers(facts, now)}))


def blocked_workers(facts: Facts, now: float) -> list[tuple[str, str]]:
    """Return each worker whose event loop was blocked a moment ago, or still is, and the handler that blocked it.

    A worker of an older version names only the handler.
    """
    marks = (name.partition(" ") for name in lately(facts, BLOCKED, now))
    return [
        (worker, handler) if handler and "/" not in worker else ("", f"{worker}{space}{handler}")
        for worker, space, handler in marks
    ]


def lately(facts: Facts, mark: str, now: float) -> tuple[str, ...]:
    """Return what workers marked a moment ago."""
    named = [(name.removeprefix(mark), at) for name, at in facts.upkeep.items() if name.startswith(mark)]
    return tuple(sorted(name for name, at in named if now - at < MARKS_SHOWN))
