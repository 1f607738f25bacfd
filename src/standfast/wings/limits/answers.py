"""What a queue's gate said: whether work may start, and when to ask again. Any answer but a yes counts as a no."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from standfast.printable import printable
from standfast.wings.limits.words import Closing

OPEN_FOR = 2.0
"""Seconds for which an open gate counts as open before it is asked again."""
CLOSED_FOR = 5.0
"""Seconds after which a closed gate is asked again, unless it said when to."""
LONGEST_CLOSED = 86400.0
LONGEST_WHY = 200


class GateAnswer(NamedTuple):
    """What a gate said, and for how many seconds that holds."""

    admission: Literal["open"] | Closing
    holds: float


OPEN = GateAnswer("open", OPEN_FOR)


def _closed(why: str, seconds: float | None = None, *, broken: bool = False) -> GateAnswer:
    closing = Closing(0.0, printable(why)[:LONGEST_WHY], broken)
    return GateAnswer(closing, min(seconds or CLOSED_FOR, LONGEST_CLOSED))


def of_answer(answer: Any) -> GateAnswer:
    """Read a function's answer: True opens, False closes, a number closes for so many seconds."""
    if answer is True:
        return OPEN
    if answer is False:
        return _closed("it says no")
    if isinstance(answer, int | float) and 0 < answer < math.inf:
        return _closed(f"it says no for {answer:g} s", float(answer))
    return _closed(f"it answered {answer!r}, not True, False or a number of seconds", broken=True)


def of_reply(status: int | None, retry_after: float | None) -> GateAnswer:
    """Read a URL's answer: 2xx opens, anything else closes for as long as its Retry-After says."""
    if status is not None and status // 100 == 2:  # noqa: PLR2004 - 2xx is success
        return OPEN
    return _closed(f"it answered HTTP {status}", retry_after)


def of_trouble(error: BaseException) -> GateAnswer:
    """Return the answer for a gate that could not be asked: closed, because it may be closed for a good reason."""
    return _closed(f"it could not be asked: {type(error).__name__}: {error}", broken=True)


def of_absence() -> GateAnswer:
    """Return the answer for a gate that is a function of another process."""
    return _closed("it is a function that this process does not have", broken=True)
