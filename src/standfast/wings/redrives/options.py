"""How a redrive shall go, as a caller writes it."""

from __future__ import annotations

from standfast.errors import ConfigurationError
from standfast.rules import Rate, as_rate
from standfast.wings.redrives.words import Course


def read_course(rate: str | float | None, canary: int, halt_on: float | None) -> Course:
    """Check rate, canary and halt; what cannot be is refused before anything starts."""
    if type(canary) is not int or canary < 0:
        raise ConfigurationError(f"canary must be a number of letters, not {canary!r}")
    if halt_on is not None and not (isinstance(halt_on, int | float) and 0 <= halt_on <= 1):
        raise ConfigurationError(f"halt_on must be a share from 0 to 1, not {halt_on!r}")
    return Course(rate=_per_second(rate), canary=canary, halt_on=None if halt_on is None else float(halt_on))


def _per_second(rate: str | float | None) -> float | None:
    if rate is None:
        return None
    if isinstance(rate, int | float) and not isinstance(rate, bool):
        if not 0 < rate < float("inf"):
            raise ConfigurationError(f"rate must be more than 0 letters per second, not {rate!r}")
        return float(rate)
    if not isinstance(rate, str):
        raise ConfigurationError(f"rate must be a number per second or text such as '100/s', not {rate!r}")
    found = Rate(**as_rate(rate))
    return found.limit / found.per
