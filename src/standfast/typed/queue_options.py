"""What `sf.queue` takes: the rules of a queue as people write them. A test holds names and meanings to `QueueRules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Required, TypedDict

from standfast.rules import Backoff, Breaker, Coalesce, Limit, Rate, Retention, Seconds

BackoffName = Literal["exponential", "fixed", "adaptive", "none"]
Gate = Callable[..., Any]
"""Says whether work may start now, plain or async; it may take the queue's name. See docs/limits.md for its answers."""


class BackoffTable(TypedDict, total=False):
    """An exponential backoff as a table."""

    base: Seconds
    """Seconds before the first repeat; each later one waits twice as long."""
    cap: Seconds
    """The longest wait, in seconds."""


class LimitTable(TypedDict, total=False):
    """A limit of jobs at once, as a table."""

    limit: Required[int]
    """How many run at once."""
    key: str
    """The part of the payload to count by, as `"payload.tenant"`; without it, the whole queue is counted."""


class RateTable(TypedDict, total=False):
    """A rate of starts, as a table."""

    limit: Required[int]
    """How many start in `per`."""
    per: Seconds | str
    """The length of time; one second unless given."""
    key: str
    """The part of the payload to count by, as `"payload.tenant"`; without it, the whole queue is counted."""
    burst: int
    """How many may start at the same moment."""


class BreakerTable(TypedDict, total=False):
    """A circuit breaker as a table."""

    failures: int
    """How many transient failures in a row open it."""
    open_for: Seconds | str
    """How long nothing is sent, until one job probes."""
    dependency: str
    """What the queue's handlers depend on."""


class RetentionTable(TypedDict, total=False):
    """How long and how many dead letters are kept."""

    age: Seconds | str
    """How long a letter is kept."""
    count: int
    """How many of the newest are kept."""


class QueueOptions(TypedDict, total=False):
    """What `sf.queue` takes besides the queue's name."""

    attempts: int
    """How many attempts a round allows, including the first. An attempt that ended because its worker died while it ran
    other jobs too does not count, and is repeated: `attempts=1` does not mean at most once, `replay="manual"` does."""
    backoff: Backoff | Callable[[int], Seconds] | BackoffTable | BackoffName
    """How long a retry waits."""
    lease: Seconds | str
    """How long after its worker's last heartbeat a job counts as lost, so that another worker may take it."""
    timeout: Seconds | str | None
    """How long an attempt may take. Unlimited only if you set None explicitly."""
    max_age: Seconds | str | None
    """How long after entering the queue a job may still start; then it dies as `max_age`."""
    priority: int
    """Higher runs first."""
    age_boost: float
    """Priority gained for each hour of waiting."""
    age_boost_cap: float
    """The most that waiting can add to the priority."""
    concurrency: int | Limit | LimitTable | None
    """How many jobs run at once over all processes: `8`, or `{"key": "payload.tenant", "limit": 2}` for each tenant."""
    rate: str | Rate | RateTable | None
    """How many jobs may start per period: `"100/s"` (or `/m`, `/h`, `/d`), or
    `{"key": "payload.tenant", "limit": 5, "per": 1}` for each tenant."""
    gate: str | Gate | None
    """Asked before any job starts: a function, or a URL that answers 2xx while jobs may start."""
    breaker: bool | Breaker | BreakerTable | None
    """When to stop calling a receiver that does not answer. It is on for HTTP jobs, per host; `False` turns it off;
    `{"dependency": "crm", "failures": 3, "open_for": 5}` names what other handlers of the queue depend on."""
    coalesce: Coalesce
    """What happens to a job whose thread already has a waiting job: `"never"` keeps every job, in order; `"latest"`
    lets the new job replace the waiting one; `"collect"` appends the new job's payload to it. `enqueue(..., coalesce=)`
    overrides this for one job."""
    destinations: Sequence[str]
    """Hosts or networks that HTTP jobs may call besides public addresses, such as `["127.0.0.1", "*.internal"]`."""
    command: str | None
    """The program that does the queue's work: the name of a `[commands.NAME]` in `standfast.toml`."""
    max_depth: int | None
    """If this many jobs are due, new ones are refused with `Backpressure`. Scheduled, parked and running jobs do not
    count. Each commit that stores jobs counts up to this many: 1 000 take 0.1 ms, 10 000 take 0.7 ms. None means no
    limit."""
    depth_warning: int
    """More due jobs than this are a health issue."""
    dead_warning: int
    """More letters than this are a health issue."""
    growth_warning: int | None
    """More new letters than this within ten minutes raise an alert. None means `dead_warning`, but at least 10."""
    denial_warning: int
    """This many letters whose replay was denied within an hour are a health issue."""
    stall_warning: Seconds | str
    """How long a job may be due while its queue claims nothing; after that it counts as stalled."""
    idle_warning: Seconds | str | None
    """How long a queue may claim nothing before an alert: for queues that always have work. None means never."""
    keep_completed: Seconds | str | None
    """How long a finished job is kept. None keeps it forever."""
    keep_keys: Seconds | str
    """How long after its job's end an idempotency key still finds the job."""
    keep_dead: Seconds | str | Retention | RetentionTable | None
    """How long a dead letter is kept: `"90d"`, or `{"age": "90d", "count": 10000}` to also keep only the newest so
    many. Each removed letter is recorded. None keeps letters forever. Held letters, and those that a policy will
    replay, always stay."""
    notify: Literal["quiet", "loud"] | None
    """Whether letters of this queue raise an alert (`[notify]`): all, or none. None leaves that to their reasons."""
