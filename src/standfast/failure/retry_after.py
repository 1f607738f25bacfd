"""How long a receiver asks its caller to wait, according to a reply's headers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

LONGEST_RETRY_AFTER = 86400.0
"""A receiver may ask for at most a day: otherwise an operator's mistake could bury the job."""

MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
"""Headers with the same meaning as `Retry-After`, in milliseconds."""

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def honour_retry_after(seconds: float) -> float:
    """Return the wait that a receiver asked for, limited to the range from 0 to 24 hours."""
    # NaN is not greater than 0 either.
    return float(min(LONGEST_RETRY_AFTER, seconds)) if seconds > 0 else 0.0


def read_retry_after(header: str, replied_at: str | None = None) -> float | None:
    """Read a `Retry-After` header: seconds, or a date. A date is measured from the reply's own `Date` header.

    Both dates are from the sender's clock, so its error cancels out, and no clock is read here.
    """
    if _SECONDS.fullmatch(header.strip()):
        return honour_retry_after(float(header))
    until, since = _http_date(header), _http_date(replied_at or "")
    if until is None or since is None:
        return None
    return honour_retry_after((until - since).total_seconds())


def requested_wait(header: Callable[[str], str | None]) -> float | None:
    """Read how long a reply asks its caller to wait; `header` looks up a header. Those in milliseconds win."""
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
    except (ValueError, OverflowError, TypeError, IndexError):  # what the parser was found to raise on nonsense
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
