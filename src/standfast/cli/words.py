"""Moments as a person says them."""

from __future__ import annotations

from datetime import UTC, datetime

from standfast.wings.records.figures import span


def now() -> datetime:
    """Give the moment that ages are told from."""
    return datetime.now(UTC)


def ago(then: datetime, now: datetime) -> str:
    """Say how far a moment is: `3 m ago`, `in 5 h`, `now`."""
    passed = (now - then).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{span(passed)} ago" if passed > 0 else f"in {span(-passed)}"


def when(then: datetime, now: datetime) -> str:
    """Give a moment, and how far it is."""
    return f"{then:%Y-%m-%d %H:%M:%S}Z ({ago(then, now)})"
