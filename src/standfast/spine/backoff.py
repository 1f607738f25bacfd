"""How long to wait before a job is repeated."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from standfast.rules import Backoff

LONGEST_DELAY = 366 * 86400.0
"""No backoff waits longer than about a year. This keeps infinity out of the store, whatever was declared."""


def delay(backoff: Backoff, repeat: int, roll: float) -> float:
    """Return the seconds to wait before the `repeat`-th repeat of a round, counted from 1.

    Jitter only shortens the wait, by at most its share; `roll` is a random number in [0, 1).
    """
    value = _steps(backoff, max(repeat, 1)) * (1 - backoff.jitter * roll)
    # NaN is not greater than 0 either.
    return float(min(LONGEST_DELAY, value)) if value > 0 else 0.0


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
