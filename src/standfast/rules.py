"""The rules of a queue, as one frozen value. Every default is in its field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, Literal, get_args

import msgspec

from standfast.errors import ConfigurationError

Seconds = float
ReplayMode = Literal["replay", "verify_first", "manual"]
"""What follows an unknown outcome; the strictest is last."""
STRICTNESS = get_args(ReplayMode).index
WhenLanded = Literal["resume", "complete"]
"""What follows when a look finds every effect of a job: its handler is resumed, or the job is completed."""
Coalesce = Literal["never", "latest", "collect"]

OURS = "standfast."
"""The prefix of standfast's own queues: alerts about alerts would never end."""

SAMPLED_REPEATS = 64
"""How many values of a callable backoff are published; later repeats use the last of them."""

DURATIONS = ("lease", "timeout", "max_age", "stall_warning", "idle_warning", "keep_completed", "keep_keys")

PER = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = re.compile(r"\s*(\d+)\s*/\s*([smhd])\s*")
_KEY = re.compile(r"payload(?:\.[^.\s]+)+")
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
    """How long the k-th repeat of a round waits: doubling from `base`, or a table whose last value is repeated."""

    base: Seconds | None = None
    cap: Seconds = 300.0
    table: tuple[Seconds, ...] = ()
    jitter: float = 0.1


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many jobs run at once over all processes: of the whole queue, or for each value of `key` in the payloads."""

    limit: int
    key: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        _whole("concurrency", self.limit)
        _check_key("concurrency", self.key)


class Rate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most `limit` starts in any `per` seconds, evenly spread; `burst` of them may start at the same moment."""

    limit: int
    per: Seconds = 1.0
    key: str | None = None
    burst: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        _whole("rate", self.limit)
        _positive("rate", self.per)
        _check_key("rate", self.key)
        if self.burst is not None and not 1 <= self.burst <= self.limit:
            raise ConfigurationError(f"the burst of a rate must be from 1 to its limit, not {self.burst!r}")


class Breaker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After `failures` transient failures in a row, nothing is sent for `open_for` seconds; then one job probes.

    Each probe that fails doubles the wait, up to ten minutes.
    """

    failures: int = 4
    """One less than a job's default attempts, so that an outage alone kills no such job."""
    open_for: Seconds = 5.0
    dependency: str | None = None
    """What a queue's handlers depend on. HTTP jobs depend on the host that they call, whatever this says."""

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        _whole("failures of a breaker", self.failures)
        _positive("open_for of a breaker", self.open_for)
        if self.dependency is not None and not self.dependency.strip():
            raise ConfigurationError("the dependency of a breaker needs a name")


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the dead letters of a queue are kept, how many of them, or both."""

    age: Seconds | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        if self.age is None and self.count is None:
            raise ConfigurationError("keep_dead needs an age, a count, or both; None keeps letters for good")
        if self.age is not None:
            _positive("the age of keep_dead", self.age)
        if self.count is not None:
            _whole("the count of keep_dead", self.count)


def _check_key(what: str, key: str | None) -> None:
    if key is not None and not _KEY.fullmatch(key):
        raise ConfigurationError(f"{what} cannot count by {key!r}; name a part of the payload, as 'payload.tenant'")


def exponential(base: Seconds = 2, cap: Seconds = 300) -> Backoff:
    """Wait `base` seconds, then twice as long each time, but never more than `cap` seconds."""
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
    """Publish a callable of the repeat's number as a table, so that processes without its code decide the same."""
    table = tuple(float(function(k)) for k in range(1, SAMPLED_REPEATS + 1))
    if not all(0 <= value < math.inf for value in table):
        raise ConfigurationError("a backoff must give finite numbers of seconds from 0")
    return Backoff(table=table, jitter=0)


class QueueRules(msgspec.Struct, frozen=True, kw_only=True):
    """How one queue behaves. Durations are seconds, or text such as `"90s"`, `"15m"`, `"2h"`, `"7d"`."""

    attempts: int = 5
    """How many attempts a round allows, including the first. An attempt that ended because its worker died while it ran
    other jobs too does not count, and is repeated: `attempts=1` does not mean at most once, `replay="manual"` does."""
    backoff: Backoff = Backoff(base=2.0)
    """How long a retry waits."""
    lease: Seconds = 90.0
    """How long after its worker's last heartbeat a job counts as lost, so that another worker may take it."""
    timeout: Seconds | None = 900.0
    """How long an attempt may take. Unlimited only if you set None explicitly."""
    max_age: Seconds | None = None
    """How long after entering the queue a job may still start; then it dies as `max_age`."""
    priority: int = 0
    """Higher runs first."""
    age_boost: float = 2.0
    """Priority gained for each hour of waiting."""
    age_boost_cap: float = 20.0
    """The most that waiting can add to the priority."""
    concurrency: Limit | None = None
    """How many jobs run at once over all processes: `8`, or `{"key": "payload.tenant", "limit": 2}` for each tenant."""
    rate: Rate | None = None
    """How many jobs may start per period: `"100/s"` (or `/m`, `/h`, `/d`), or
    `{"key": "payload.tenant", "limit": 5, "per": 1}` for each tenant."""
    gate: str | None = None
    """Asked before any job starts: a function, or a URL that answers 2xx while jobs may start."""
    breaker: Breaker | None = Breaker()
    """When to stop calling a receiver that does not answer. It is on for HTTP jobs, per host; `False` turns it off;
    `{"dependency": "crm", "failures": 3, "open_for": 5}` names what other handlers of the queue depend on."""
    coalesce: Coalesce = "never"
    """What happens to a job whose thread already has a waiting job: `"never"` keeps every job, in order; `"latest"`
    lets the new job replace the waiting one; `"collect"` appends the new job's payload to it. `enqueue(..., coalesce=)`
    overrides this for one job."""
    destinations: tuple[str, ...] = ()
    """Hosts or networks that HTTP jobs may call besides public addresses, such as `["127.0.0.1", "*.internal"]`."""
    command: str | None = None
    """The program that does the queue's work: the name of a `[commands.NAME]` in `standfast.toml`."""
    max_depth: int | None = None
    """If this many jobs are due, new ones are refused with `Backpressure`. Scheduled, parked and running jobs do not
    count. Each commit that stores jobs counts up to this many: 1 000 take 0.1 ms, 10 000 take 0.7 ms. None means no
    limit."""
    depth_warning: int = 100
    """More due jobs than this are a health issue."""
    dead_warning: int = 10
    """More letters than this are a health issue."""
    growth_warning: int | None = None
    """More new letters than this within ten minutes raise an alert. None means `dead_warning`, but at least 10."""
    denial_warning: int = 5
    """This many letters whose replay was denied within an hour are a health issue."""
    stall_warning: Seconds = 60.0
    """How long a job may be due while its queue claims nothing; after that it counts as stalled."""
    idle_warning: Seconds | None = None
    """How long a queue may claim nothing before an alert: for queues that always have work. None means never."""
    keep_completed: Seconds | None = 86400.0
    """How long a finished job is kept. None keeps it forever."""
    keep_keys: Seconds = 604800.0
    """How long after its job's end an idempotency key still finds the job."""
    keep_dead: Retention | None = None
    """How long a dead letter is kept: `"90d"`, or `{"age": "90d", "count": 10000}` to also keep only the newest so
    many. Each removed letter is recorded. None keeps letters forever. Held letters, and those that a policy will
    replay, always stay."""
    notify: Literal["quiet", "loud"] | None = None
    """Whether letters of this queue raise an alert (`[notify]`): all, or none. None leaves that to their reasons."""

    @property
    def regulated(self) -> bool:
        """Whether anything besides slots may hold its jobs back. HTTP requests have breakers in every queue."""
        named = self.breaker is not None and self.breaker.dependency is not None
        return named or self.gate is not None or self.concurrency is not None or self.rate is not None

    def __post_init__(self) -> None:
        """Refuse values that cannot work, and name the field."""
        _whole("attempts", self.attempts)
        if self.max_depth is not None:
            _whole("max_depth", self.max_depth)
        _whole("denial_warning", self.denial_warning)
        for name in ("age_boost", "age_boost_cap", "depth_warning", "dead_warning", "growth_warning"):
            _not_negative(name, getattr(self, name) or 0)
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
"""The priority of an event by what triggered it, unless its sender or its queue sets another."""


def queue_rules(**given: Any) -> QueueRules:
    """Build rules from what a user wrote in code or in `standfast.toml`."""
    unknown = sorted(set(given) - set(QueueRules.__struct_fields__))
    if unknown:
        raise ConfigurationError.unknown("queue setting", unknown[0], QueueRules.__struct_fields__)
    for name in DURATIONS:
        if name in given:
            given[name] = seconds(given[name])
    for name, read in READERS.items():
        if name in given:
            given[name] = read(given[name])
    try:
        return msgspec.convert(given, QueueRules)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"queue rules: {error}") from error


def as_backoff(value: Backoff | Callable[[int], Seconds] | dict[str, Any] | str) -> Backoff:
    """Accept a backoff, a callable of the repeat's number, or a name or table from a file."""
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
    if not isinstance(value, str):
        raise ConfigurationError(
            f"backoff cannot be {value!r}; write fixed(4) to wait 4 s each time, exponential(base=4, cap=300), "
            f"a function of the repeat's number, or in a file {{ base = 4, cap = 300 }}"
        )
    if value not in named:
        raise ConfigurationError.unknown("backoff", value, named)
    return named[value]


def seconds(value: float | str | None) -> Seconds | None:
    """Read a duration: a number of seconds, or text such as `"7d"` or `"1h 30m"`."""
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or _DURATION.sub("", value).strip():
        raise ConfigurationError(f"{value!r} is not a duration; write seconds, or for example '90s', '15m', '2h', '7d'")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def as_limit(value: Any) -> Any:
    """Accept a number for the whole queue, or a table with `key` and `limit`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"limit": value}
    return _table("concurrency", value, Limit, "8, or {'key': 'payload.tenant', 'limit': 2} for each tenant")


def as_rate(value: Any) -> Any:
    """Accept text such as "100/s", or a table with `limit`, `per`, `key`, `burst`."""
    if isinstance(value, dict) and "per" in value:
        per = PER.get(value["per"]) if isinstance(value["per"], str) else value["per"]
        value = {**value, "per": seconds(value["per"]) if per is None else per}
    if not isinstance(value, str):
        return _table("rate", value, Rate, "how many in which time, as '100/s', '60/m' or '1000/h'")
    found = _RATE.fullmatch(value)
    if found is None:
        raise ConfigurationError(f"{value!r} is not a rate; write for example '100/s', '60/m' or '1000/h'")
    return {"limit": int(found[1]), "per": PER[found[2]]}


def as_breaker(value: Any) -> Any:
    """Accept True, False, or a table with `failures`, `open_for`, `dependency`."""
    if isinstance(value, bool):
        return Breaker() if value else None
    if isinstance(value, dict) and "open_for" in value:
        value = {**value, "open_for": seconds(value["open_for"])}
    return _table("breaker", value, Breaker, "False, or {'dependency': 'crm', 'failures': 3, 'open_for': 5}")


def as_retention(value: Any) -> Any:
    """Accept an age, or a table with `age` and `count`."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"age": seconds(value)}
    if isinstance(value, dict) and "age" in value:
        value = {**value, "age": seconds(value["age"])}
    return _table("keep_dead", value, Retention, "'90d', or {'age': '90d', 'count': 10000}")


def _table(what: str, value: Any, kind: type[msgspec.Struct], example: str) -> Any:
    """Return a table whose names are all known, the rule itself, or None; for anything else, say how to write it."""
    if isinstance(value, dict):
        unknown = [name for name in value if name not in kind.__struct_fields__]
        if unknown:
            raise ConfigurationError.unknown(f"{what} setting", unknown[0], kind.__struct_fields__)
    elif value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{what} cannot be {value!r}; write {example}")
    return value


def as_gate(value: Any) -> Any:
    """Accept a URL, or a function, of which only the name is published: other processes cannot call it."""
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{FUNCTION}{getattr(value, '__module__', '')}.{name}"
    if isinstance(value, str) and not value.startswith(("http://", "https://", FUNCTION)):
        raise ConfigurationError(f"a gate is a function or an http(s) URL, not {value!r}")
    return value


FUNCTION = "function "
"""The prefix of the name of a gate that only the process that declared it can ask."""
READERS: dict[str, Callable[[Any], Any]] = {
    "backoff": as_backoff,
    "concurrency": as_limit,
    "rate": as_rate,
    "gate": as_gate,
    "breaker": as_breaker,
    "keep_dead": as_retention,
}
"""How to read the settings that may be written in more than one way."""
