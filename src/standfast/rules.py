"""The rules of a queue, as one frozen value. Every default lives in its field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, Literal

import msgspec

from standfast.errors import ConfigurationError

Seconds = float
ReplayMode = Literal["replay", "verify_first", "manual"]
Coalesce = Literal["latest", "collect", "never"]

SAMPLED_REPEATS = 64
"""How many values of a callable backoff are published; later repeats use the last one."""

DURATIONS = ("lease", "timeout", "max_age", "keep_completed", "keep_keys")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_HOST = re.compile(r"(?:\*\.)?(?:[a-z0-9_-]+\.)*[a-z_][a-z0-9_-]*\.?", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


def _positive(name: str, value: float) -> float:
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigurationError(f"{name} must be more than 0, not {value!r}")
    return float(value)


def _not_negative(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise ConfigurationError(f"{name} must be a number from 0, not {value!r}")
    return value


def _whole(name: str, value: int) -> int:
    if value < 1:
        raise ConfigurationError(f"{name} must be at least 1, not {value!r}")
    return value


def _destination(entry: str) -> str:
    try:
        ip_network(entry, strict=False)
    except ValueError:
        if not _HOST.fullmatch(entry):
            raise ConfigurationError(
                f"destinations cannot name {entry!r}; write a host, '*.internal', an address, or a network "
                "such as '10.0.0.0/8', without scheme and port"
            ) from None
    return entry


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long the k-th repeat of a round waits: doubling from `base`, or a table whose last value goes on."""

    base: Seconds | None = None
    cap: Seconds = 300.0
    table: tuple[Seconds, ...] = ()
    jitter: float = 0.1


def exponential(base: Seconds = 2, cap: Seconds = 300) -> Backoff:
    """Wait `base`, then twice as long each time, never more than `cap` seconds."""
    return Backoff(base=_positive("base", base), cap=_positive("cap", cap))


def fixed(seconds: Seconds = 10) -> Backoff:
    """Wait the same number of seconds before every repeat."""
    return Backoff(table=(_positive("seconds", seconds),))


def adaptive() -> Backoff:
    """Wait 10, 20, 45, 90, then 120 seconds: for outages that last seconds or minutes."""
    return Backoff(table=(10, 20, 45, 90, 120))


def no_backoff() -> Backoff:
    """Repeat at once."""
    return Backoff(table=(0,), jitter=0)


def sampled(function: Callable[[int], Seconds]) -> Backoff:
    """Publish a callable of the repeat's number as a table, so that processes without the code decide alike."""
    table = tuple(float(function(k)) for k in range(1, SAMPLED_REPEATS + 1))
    if not all(0 <= value < math.inf for value in table):
        raise ConfigurationError("a backoff must give finite numbers of seconds from 0")
    return Backoff(table=table, jitter=0)


class QueueRules(msgspec.Struct, frozen=True, kw_only=True):
    """How one queue behaves. Durations are seconds, or text such as `"90s"`, `"15m"`, `"2h"`, `"7d"`."""

    attempts: int = 5
    """How many claims one round allows, the first included."""
    backoff: Backoff = Backoff(base=2.0)
    """How long a repeat waits."""
    lease: Seconds = 90.0
    """How long after its worker's last heartbeat a job counts as lost."""
    timeout: Seconds | None = 900.0
    """How long an attempt may take. None is no limit, and must be written."""
    max_age: Seconds | None = None
    """How long after entering the queue a job may still start; then it dies as `max_age`."""
    priority: int = 0
    """Higher runs first."""
    age_boost: float = 2.0
    """Priority gained per hour of waiting."""
    age_boost_cap: float = 20.0
    """The most that waiting can add."""
    coalesce: Coalesce = "latest"
    """What becomes of a job whose thread already has one waiting: the latest replaces it, all are collected into it,
    or every one is kept, in order."""
    destinations: tuple[str, ...] = ()
    """Hosts or networks HTTP jobs may call besides public addresses, as in `["127.0.0.1", "*.internal"]`."""
    max_depth: int | None = None
    """With so many jobs due, new ones are refused with `Backpressure`. What is scheduled, parked or running does not
    count. Each commit that stores jobs counts up to this many: 1 000 take 0.1 ms, 10 000 take 0.7 ms. None is no
    limit."""
    depth_warning: int = 100
    """More due jobs than this are a health issue."""
    dead_warning: int = 10
    """More letters than this are a health issue."""
    keep_completed: Seconds | None = 86400.0
    """How long a finished job can still be looked up. None keeps it for good."""
    keep_keys: Seconds = 604800.0
    """How long after its job's end an idempotency key still answers."""

    def __post_init__(self) -> None:
        """Refuse what could not work, naming the field."""
        _whole("attempts", self.attempts)
        if self.max_depth is not None:
            _whole("max_depth", self.max_depth)
        for name in ("age_boost", "age_boost_cap", "depth_warning", "dead_warning"):
            _not_negative(name, getattr(self, name))
        for name in DURATIONS:
            value = getattr(self, name)
            if value is not None:
                _positive(name, value)
        for entry in self.destinations:
            _destination(entry)


DEFAULTS = QueueRules()

TRIGGER_PRIORITIES = {
    "ci_failure_master": 100,
    "ci_failure_pr": 80,
    "assign": 70,
    "pr_update_approved": 60,
    "mention": 50,
    "pr_update_review": 40,
    "pr_update_general": 30,
    "scheduled_high": 20,
    "scheduled_low": 10,
}
"""The priority an event has by what triggered it, unless its sender or its queue says otherwise."""


def queue_rules(**given: Any) -> QueueRules:
    """Build rules from what a user writes in code or in `standfast.toml`."""
    unknown = sorted(set(given) - set(QueueRules.__struct_fields__))
    if unknown:
        raise ConfigurationError.unknown("queue setting", unknown[0], QueueRules.__struct_fields__)
    for name in DURATIONS:
        if name in given:
            given[name] = seconds(given[name])
    if "backoff" in given:
        given["backoff"] = as_backoff(given["backoff"])
    try:
        return msgspec.convert(given, QueueRules)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"queue rules: {error}") from error


def as_backoff(value: Backoff | Callable[[int], Seconds] | dict[str, Any] | str) -> Backoff:
    """Accept a backoff, a callable of the repeat's number, or its name in a file."""
    if isinstance(value, Backoff):
        return value
    if callable(value):
        return sampled(value)
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"base", "cap"})
        if unknown:
            raise ConfigurationError.unknown("backoff setting", unknown[0], ("base", "cap"))
        return exponential(**value)
    named = {"exponential": exponential(), "fixed": fixed(), "adaptive": adaptive(), "none": no_backoff()}
    if value not in named:
        raise ConfigurationError.unknown("backoff", value, named)
    return named[value]


def seconds(value: float | str | None) -> Seconds | None:
    """Read a duration: a number of seconds, or text such as `"7d"` or `"1h 30m"`."""
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or _DURATION.sub("", value).strip():
        raise ConfigurationError(f"{value!r} is no duration; write seconds, or for example '90s', '15m', '2h', '7d'")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
