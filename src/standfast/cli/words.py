"""Times and spans as a person says them."""

from __future__ import annotations

from datetime import UTC, datetime

UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
NEARLY = 1.01
"""One per cent short of two hours is told as two hours, not as 119 minutes."""


def now() -> datetime:
    """Give the moment that ages are told from."""
    return datetime.now(UTC)


def span(seconds: float) -> str:
    """Say a length of time in the largest unit it has at least two of: `3 m`, `90 m`, `2 h`."""
    for size, unit in UNITS:
        count = int(seconds / size * NEARLY)
        if count > 1:
            return f"{count} {unit}"
    return f"{int(seconds)} s" if seconds >= 1 else f"{round(seconds, 1):g} s"


def count_of(number: int, what: str) -> str:
    """Say how many there are: `1 job`, `2 jobs`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def ago(then: datetime, now: datetime) -> str:
    """Say how far a moment is: `3 m ago`, `in 5 h`, `now`."""
    passed = (now - then).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{span(passed)} ago" if passed > 0 else f"in {span(-passed)}"


def when(then: datetime, now: datetime) -> str:
    """Give a moment, and how far it is."""
    return f"{then:%Y-%m-%d %H:%M:%S}Z ({ago(then, now)})"
