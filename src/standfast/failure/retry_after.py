"""How long a receiver asks its caller to wait, as the headers of a reply say it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

LONGEST_RETRY_AFTER = 86400.0
"""A receiver may ask for at most a day: more would let a slip of its keeper bury the job."""

MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
"""Headers that say the same as `Retry-After`, in milliseconds."""

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def honour_retry_after(seconds: float) -> float:
    """Give the wait a receiver asked for, within 0 and 24 hours."""
    # NaN is not more than 0 either.
    return float(min(LONGEST_RETRY_AFTER, seconds)) if seconds > 0 else 0.0


def read_retry_after(header: str, replied_at: str | None = None) -> float | None:
    """Read a `Retry-After` header: seconds, or a date. A date is measured from the reply's own `Date` header.

    The sender's clock made both dates, so its error cancels out and no clock is read here.
    """
    if _SECONDS.fullmatch(header.strip()):
        return honour_retry_after(float(header))
    until, since = _http_date(header), _http_date(replied_at or "")
    if until is None or since is None:
        return None
    return honour_retry_after((until - since).total_seconds())


def requested_wait(header: Callable[[str], str | None]) -> float | None:
    """Read how long a reply asks its caller to wait; `header` looks one up. What is exact to the millisecond wins."""
    for name in MILLISECONDS:
        exact = (header(name) or "").strip()
        if _SECONDS.fullmatch(exact):
            return honour_retry_after(float(exact) / 1000)
    value = header("Retry-After")
    return read_retry_after(value, header("Date")) if value else None


def _http_date(text: str) -> datetime | None:
    try:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import, and few answers have a date

        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):  # what the parser raises on nonsense, by trial
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
