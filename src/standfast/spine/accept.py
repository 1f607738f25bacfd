"""Accept work: turn what a caller gave into a job on disk, or refuse it before anything is written."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, partial
from itertools import repeat
from typing import Any, get_args

import msgspec

from standfast.clock import Clock
from standfast.errors import Backpressure, ConfigurationError, IdempotencyConflict
from standfast.job import MOST_LABELS, RISKS, Details, NewJob, Receipt
from standfast.lifecycle import State
from standfast.portable import user_name
from standfast.rules import OURS, Coalesce, seconds
from standfast.spine.claim_requests import Conflict, Full
from standfast.spine.claimed_job import SESSION
from standfast.spine.ids import IDS, Ids
from standfast.spine.payload import canonical, fingerprint
from standfast.spine.registry import Registry
from standfast.typed.job_options import Duration, When

LONGEST_NAME = 200
SHORTEST_LEASE = 1
LONGEST_SPAN = 1e10
LATEST_MOMENT = 1e11
SURELY_A_SPAN = 1e9
"""Seconds since 1970 below this are before 2001: such a small number means a length of time."""

MOST_PLACES = 1024
"""How many checked pairs of queue and handler are remembered."""

_details = msgspec.json.Encoder().encode
_PLACES: dict[tuple[str, str], dict[str, Any]] = {}


class Acceptor:
    """Turns calls into jobs. If it refuses a call, nothing was written."""

    def __init__(self, registry: Registry, clock: Clock, ids: Ids = IDS) -> None:
        self._registry = registry
        self._clock = clock
        self._ids = ids

    def jobs(
        self,
        queue: str,
        payloads: Iterable[Any],
        *,
        handler: str | None = None,
        from_outside: bool = False,
        own_keys: Iterable[str | None] | None = None,
        **options: Any,
    ) -> list[NewJob]:
        """Check everything a caller gave, and make a new job of each payload. What the payloads share is checked once.

        `own_keys` has one key for each payload, if they do not share one.
        A payload `from_outside` is stored even if it does not fit its handler: its sender cannot correct it, and as a
        letter it is visible here. That does not hold for built-in handlers.
        """
        name = queue if handler is None else handler
        session = SESSION.get()
        if session is not None and options.get("session") is None:
            options["session"] = session
        wall = self._clock.wall()
        if options or type(queue) is not str or type(name) is not str:
            shared = _shared(queue, name, wall, options)
        else:
            shared = _PLACES.get((queue, name)) or _nothing_asked(queue, name)
        lay_out = partial(NewJob, **shared)
        known = self._registry.of_every_queue.get(name)
        if known is None and not from_outside:
            known = self._registry.own.get((queue, name))
        read = known.read if known is not None and known.input is not None else None
        mint, found = self._ids.mint, []
        each = repeat(shared.get("idempotency_key")) if own_keys is None else own_keys
        for payload, key in zip(payloads, each, strict=False):
            text = canonical(payload)
            given = None if read is None else read(text)
            job = lay_out(id=mint(wall), payload=text)
            if key is not None:
                same = text if known is None else known.identity_of(given, text)
                job = msgspec.structs.replace(job, idempotency_key=key, fingerprint=fingerprint(name, same))
            found.append(job)
        return found

    def internal(self, queue: str, payloads: Iterable[Any]) -> list[NewJob]:
        """Build jobs for an internal queue; only standfast may add to one."""
        lay_out = partial(NewJob, queue=queue, handler=queue, details=_default_details())
        return [lay_out(id=self._ids.mint(self._clock.wall()), payload=canonical(each)) for each in payloads]


def _checked_place(what: str, value: object) -> str:
    """Check the name of a queue or handler that a caller enqueues to.

    Every way in refuses the names of standfast's own queues, because what they send is sent in our name.
    """
    name = checked_name(what, value)
    if name.startswith(OURS):
        raise ConfigurationError(
            f"{what} {name!r} is reserved for standfast's own messages; nothing was written: "
            f"use a name that does not begin with {OURS!r}"
        )
    return name


def _check_known(options: Iterable[str]) -> None:
    """Refuse an option that was mistyped or that this call does not take."""
    for name in options:
        if name not in OPTIONS:
            known = [each for each in ("handler", "otherwise", "tx", *OPTIONS) if each != name]
            raise ConfigurationError.unknown("option", name, known)


def _read_options(
    *,
    priority: int | None = None,
    delay: Duration | None = None,
    at: When | None = None,
    expires: When | None = None,
    attempts: int | None = None,
    lease: Duration | None = None,
    session: str | None = None,
    requester: str | None = None,
    risk: str | None = None,
    labels: dict[str, str] | None = None,
    thread_key: str | None = None,
    coalesce: Coalesce | None = None,
    first_seen_at: When | None = None,
) -> dict[str, Any]:
    if delay is not None and at is not None:
        raise ConfigurationError("delay= and at= both say when to start; nothing was written: give one of them")
    return {
        "details": _described(session, requester, risk, labels, _how_to_fold(coalesce, thread_key)),
        "priority": _whole("priority", priority),
        "delay": _span("delay", delay) or 0.0,
        "at": moment("at", at),
        "expires": moment("expires", expires),
        "budget": _whole("attempts", attempts, least=1),
        "lease": _span("lease", lease, least=SHORTEST_LEASE),
        "thread_key": None if thread_key is None else checked_name("thread_key", thread_key),
        "first_seen_at": moment("first_seen_at", first_seen_at),
    }


OPTIONS = ("idempotency_key", *inspect.signature(_read_options).parameters)
"""The options of any job."""
DETAILS = tuple(name for name in OPTIONS if name in Details.__struct_fields__)
"""Those options that are fields of the job's details."""


def _shared(queue: str, handler: str, wall: float, options: dict[str, Any]) -> dict[str, Any]:
    """Read the options that the payloads of a call share. Sets of options that were read before are cached."""
    place = _nothing_asked(queue, handler)
    _check_known(options)
    key = options.pop("idempotency_key", None)
    try:
        shared = place | _remembered((*options,), *options.values()) if options else place
    except TypeError:  # labels: a dict cannot be a cache key
        shared = place | _read_options(**options)
    _check_ahead(shared.get("expires"), wall)
    return shared if key is None else {**shared, "idempotency_key": checked_name("idempotency_key", key)}


@lru_cache(maxsize=1024, typed=True)
def _remembered(names: Sequence[str], *values: Any) -> dict[str, Any]:
    return _read_options(**dict(zip(names, values, strict=True)))


def _nothing_asked(queue: str, handler: str) -> dict[str, Any]:
    """Return the fields of jobs of a call without options, and cache them."""
    places = {"queue": _checked_place("queue", queue), "handler": _checked_place("handler", handler)}
    found = {**places, "details": _default_details()}
    if len(_PLACES) < MOST_PLACES:
        _PLACES[queue, handler] = found
    return found


def receipt(answer: Receipt | Conflict | Full, job: NewJob) -> Receipt:
    """Return the receipt, or raise if the key belongs to another payload or the queue is full."""
    if isinstance(answer, Receipt):
        state = answer.state
        return answer if state is None or isinstance(state, State) else answer._replace(state=State(state))
    if isinstance(answer, Full):
        raise Backpressure(
            f"queue {job.queue!r} has {answer.most} jobs due, as many as max_depth allows; nothing was written: "
            "call again later, start more workers, or raise max_depth"
        )
    raise IdempotencyConflict(
        f"key {job.idempotency_key!r} of queue {job.queue!r} belongs to job {answer.job_id} with another "
        "payload; nothing was written: use another key, or send the same payload",
        job_id=answer.job_id,
    )


def _how_to_fold(coalesce: Coalesce | None, thread_key: str | None) -> Coalesce | None:
    if coalesce is not None and coalesce not in get_args(Coalesce):
        raise ConfigurationError.unknown("coalesce", coalesce, get_args(Coalesce))
    if coalesce not in (None, "never") and thread_key is None:
        raise ConfigurationError(f"coalesce={coalesce!r} folds jobs of a thread; nothing was written: add thread_key=")
    return coalesce


def _described(
    session: str | None,
    requester: str | None,
    risk: str | None,
    labels: dict[str, str] | None,
    coalesce: Coalesce | None,
) -> str:
    if risk is not None and risk not in RISKS:
        raise ConfigurationError(f"risk={risk!r} is unknown; known are {', '.join(RISKS)}")
    session = session or None  # "" means no session
    for what, value in (("session", session), ("requester", requester)):
        if value is not None:
            checked_name(what, value)
    _check_labels(labels)
    who = requester or session or user()
    return _details(Details(who, session, risk, labels, coalesce=coalesce)).decode()


def _check_labels(labels: object) -> None:
    if labels is None:
        return
    if not isinstance(labels, dict):
        raise ConfigurationError(f"labels must be a dict of text to text, not {labels!r}")
    if len(labels) > MOST_LABELS:
        raise ConfigurationError(f"labels may have {MOST_LABELS} entries, not {len(labels)}; send more in the payload")
    for name, value in labels.items():
        checked_name("a label's name", name)
        if value != "":
            checked_name("a label's value", value)


@cache
def _default_details() -> str:
    return _details(Details(requester=user())).decode()


@cache
def user() -> str:
    """Return the name of the user who runs this process, as the operating system knows it."""
    return user_name()


def checked_name(what: str, value: object) -> str:
    """Check a name that a caller gave."""
    if isinstance(value, str) and _is_name(value):
        return value
    raise ConfigurationError(f"{what} must be printable text of 1 to {LONGEST_NAME} characters, not {value!r}")


@lru_cache(maxsize=1024)
def _is_name(value: str) -> bool:
    return 0 < len(value) <= LONGEST_NAME and value.isprintable()


def _whole(what: str, value: int | None, least: int = -(2**31)) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not least <= value < 2**31:
        raise ConfigurationError(f"{what} must be a whole number from {least} to {2**31 - 1}, not {value!r}")
    return value


def _span(what: str, value: Duration | None, least: float = 0) -> float | None:
    span = value.total_seconds() if isinstance(value, timedelta) else seconds(value)
    if span is None:
        return None
    if not isinstance(span, int | float) or not least <= span < LONGEST_SPAN:
        raise ConfigurationError(f"{what} must be a number of seconds from {least}, not {value!r}")
    return float(span)


def moment(what: str, value: When | None) -> float | None:
    """Read a moment: seconds since 1970, or a datetime that has a time zone."""
    if isinstance(value, datetime):
        return _zoned(what, value).timestamp()
    if value is not None and not (isinstance(value, int | float) and 0 <= value < LATEST_MOMENT):
        raise ConfigurationError(
            f"{what} must be a datetime with a zone or seconds since 1970, such as time.time() + 600, not {value!r}"
        )
    return value


def _zoned(what: str, value: datetime) -> datetime:
    """Refuse a datetime without a time zone: local time and UTC are hours apart, and which one is meant is unclear."""
    if value.utcoffset() is None:
        raise ConfigurationError(
            f"{what}={value.isoformat()} has no time zone; nothing was written: write datetime.now(UTC) for the "
            "present, or call .astimezone() on a local time"
        )
    return value


def _check_ahead(expires: float | None, now: float) -> None:
    """Refuse an expiry in the past: the job could only die."""
    if expires is None or expires > now:
        return
    past = datetime.fromtimestamp(expires, UTC).isoformat(timespec="seconds")
    suggestion = f"; for that many seconds from now write time.time() + {expires:g}" if expires < SURELY_A_SPAN else ""
    why = f"expires={expires:.15g} is {past}, which is in the past, so the job would never run; nothing was written"
    raise ConfigurationError(why + suggestion)
