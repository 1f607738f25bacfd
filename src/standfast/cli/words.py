"""Points in time, worded for people."""

from __future__ import annotations

from datetime import UTC, datetime

from standfast.wings.records.figures import span


def now() -> datetime:
    """Return the moment that ages are measured from."""
    return datetime.now(UTC)


def ago(then: datetime, now: datetime) -> str:
    """Say how long ago or ahead a moment is: `3 m ago`, `in 5 h`, `now`."""
    passed = (now - then).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{span(passed)} ago" if passed > 0 else f"in {span(-passed)}"


def when(then: datetime, now: datetime) -> str:
    """Return a moment, and how long ago or ahead it is."""
    return f"{then:%Y-%m-%d %H:%M:%S}Z ({ago(then, now)})"
