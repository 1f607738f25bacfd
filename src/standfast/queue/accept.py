"""Accepting work: from what a caller writes to a job on disk, or a refusal before anything is written."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from standfast.clock import Clock
from standfast.errors import ConfigurationError, IdempotencyConflict
from standfast.handlers.registry import Registry
from standfast.job import Details, NewJob, Receipt
from standfast.queue.ids import job_id
from standfast.queue.payload import canonical, fingerprint
from standfast.rules import seconds
from standfast.store.scripts import Conflict

When = datetime | float
Duration = float | str | timedelta

RISKS = ("low", "medium", "high", "critical")
LONGEST_NAME = 200
LONGEST_SPAN = 1e10
LATEST_MOMENT = 1e11

_details = msgspec.json.Encoder().encode


class Acceptor:
    """Turns calls into jobs. What it refuses was not written."""

    def __init__(self, registry: Registry, clock: Clock, chance: Callable[[int], bytes] = os.urandom) -> None:
        self._registry = registry
        self._clock = clock
        self._chance = chance

    def job(
        self,
        queue: str,
        payload: Any = None,
        *,
        handler: str | None = None,
        idempotency_key: str | None = None,
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
    ) -> NewJob:
        """Check everything a caller gave and lay it out as a new job."""
        name = _name("handler", handler) if handler is not None else _name("queue", queue)
        text = canonical(payload)
        known = self._registry.find(queue, name)
        if known is not None:
            known.read(text)
        return NewJob(
            id=job_id(self._clock.wall(), self._chance(10)),
            queue=_name("queue", queue),
            handler=name,
            payload=text,
            details=_described(session, requester, risk, labels),
            priority=_whole("priority", priority),
            delay=_span("delay", delay) or 0.0,
            at=_moment("at", at),
            expires=_moment("expires", expires),
            budget=_whole("attempts", attempts, least=1),
            lease=_span("lease", lease),
            idempotency_key=None if idempotency_key is None else _name("idempotency_key", idempotency_key),
            fingerprint=None if idempotency_key is None else fingerprint(name, text),
        )


def receipts(answers: Sequence[Receipt | Conflict], jobs: Sequence[NewJob]) -> list[Receipt]:
    """Give the receipts, or raise for the first key that is taken by another payload."""
    for answer, job in zip(answers, jobs, strict=True):
        if isinstance(answer, Conflict):
            raise IdempotencyConflict(
                f"key {job.idempotency_key!r} of queue {job.queue!r} belongs to job {answer.job_id} with another "
                "payload; nothing was written: use another key, or send the same payload",
                job_id=answer.job_id,
            )
    return [answer for answer in answers if isinstance(answer, Receipt)]


def _described(session: str | None, requester: str | None, risk: str | None, labels: dict[str, str] | None) -> str:
    if session is None and requester is None and risk is None and labels is None:
        return _anonymous()
    if risk is not None and risk not in RISKS:
        raise ConfigurationError(f"risk={risk!r} is unknown; known are {', '.join(RISKS)}")
    if labels is not None and not all(isinstance(part, str) for pair in labels.items() for part in pair):
        raise ConfigurationError("labels must map text to text")
    details = Details(requester=requester or session or _user(), session=session, risk=risk, labels=labels)  # type: ignore[arg-type]
    return _details(details).decode()


@cache
def _anonymous() -> str:
    return _details(Details(requester=_user())).decode()


@cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this number, as in a bare container
        return f"uid-{os.getuid()}"


def _name(what: str, value: str) -> str:
    if not isinstance(value, str) or not value or len(value) > LONGEST_NAME or not value.isprintable():
        raise ConfigurationError(f"{what} must be printable text of 1 to {LONGEST_NAME} characters, not {value!r}")
    return value


def _whole(what: str, value: int | None, least: int = -(2**31)) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not least <= value < 2**31:
        raise ConfigurationError(f"{what} must be a whole number, not {value!r}")
    return value


def _span(what: str, value: Duration | None) -> float | None:
    span = value.total_seconds() if isinstance(value, timedelta) else seconds(value)
    if span is not None and not 0 <= span < LONGEST_SPAN:
        raise ConfigurationError(f"{what} must be a number of seconds from 0, not {value!r}")
    return None if span is None else float(span)


def _moment(what: str, value: When | None) -> float | None:
    """Read a moment: seconds since 1970, or a datetime (without a zone it is UTC)."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if value is not None and not 0 <= value < LATEST_MOMENT:
        raise ConfigurationError(f"{what} must be a datetime or seconds since 1970, not {value!r}")
    return value
