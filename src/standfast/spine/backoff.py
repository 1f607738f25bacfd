"""How long to wait before a repeat."""

from __future__ import annotations

import math
import re
import sys
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from standfast.rules import Backoff

LONGEST_RETRY_AFTER = 86400.0
"""A receiver may ask for at most a day: more would let a slip of its keeper bury the job."""

LONGEST_DELAY = 366 * 86400.0
"""No backoff waits longer than a year: this keeps infinity, whatever was declared, out of the store."""

MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
"""Headers that say the same as `Retry-After`, in milliseconds."""

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def delay(backoff: Backoff, repeat: int, roll: float) -> float:
    """Give the seconds before the `repeat`-th repeat of a round, counted from 1.

    Jitter only shortens, by up to its share: `roll` is chance, in [0, 1).
    """
    value = _steps(backoff, max(repeat, 1)) * (1 - backoff.jitter * roll)
    return _between(value, LONGEST_DELAY)


def honour_retry_after(seconds: float) -> float:
    """Give the wait a receiver asked for, within 0 and 24 hours."""
    return _between(seconds, LONGEST_RETRY_AFTER)


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


def wait_asked_for(header: Callable[[str], str | None]) -> float | None:
    """Read how long a reply asks its caller to wait; `header` looks one up. What is exact to the millisecond wins."""
    for name in MILLISECONDS:
        exact = (header(name) or "").strip()
        if _SECONDS.fullmatch(exact):
            return honour_retry_after(float(exact) / 1000)
    asked = header("Retry-After")
    return read_retry_after(asked, header("Date")) if asked else None


def _steps(backoff: Backoff, repeat: int) -> float:
    if backoff.table:
        return backoff.table[min(repeat, len(backoff.table)) - 1]
    if backoff.base is None:
        return 0.0
    return _doubled(backoff.base, repeat - 1, backoff.cap)


def _doubled(base: float, times: int, cap: float) -> float:
    _, exponent = math.frexp(base)
    if exponent + times > sys.float_info.max_exp:  # more than a float can hold, so more than any cap
        return cap
    return min(cap, math.ldexp(base, times))


def _between(seconds: float, most: float) -> float:
    # NaN is not more than 0 either.
    return float(min(most, seconds)) if seconds > 0 else 0.0


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):  # what the parser raises on nonsense, by trial
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
