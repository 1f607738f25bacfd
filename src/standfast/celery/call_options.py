"""The options of `apply_async`, translated to those of `enqueue`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

from standfast.celery.unmapped import CALL_OPTIONS, PICKLE, refuse
from standfast.errors import ConfigurationError


class CallOptions(TypedDict, total=False):
    """When and where a task runs."""

    countdown: float | None
    eta: datetime | None
    expires: float | datetime | None
    queue: str | None
    priority: int | None
    task_id: str | None
    serializer: str | None


def as_enqueue_options(given: Mapping[str, Any], tz: str, now: float) -> dict[str, Any]:
    """Return the options for `enqueue`, except the queue, which is chosen elsewhere."""
    refuse("option of apply_async", given, CALL_OPTIONS, CallOptions.__annotations__)
    if given.get("serializer") not in (None, "json"):
        raise ConfigurationError(f"serializer={given['serializer']!r} of Celery does not map to standfast: {PICKLE}")
    found = {
        "delay": None if given.get("countdown") is None else max(0, given["countdown"]),
        "at": zoned(given.get("eta"), tz),
        "expires": _expiry(given.get("expires"), tz, now),
        "priority": given.get("priority"),
        "idempotency_key": given.get("task_id"),
    }
    return {name: value for name, value in found.items() if value is not None}


def zoned(moment: datetime | None, tz: str) -> datetime | None:
    """Return a moment with a time zone; without one, it is in the app's."""
    if moment is None or moment.utcoffset() is not None:
        return moment
    return moment.replace(tzinfo=ZoneInfo(tz))


def _expiry(given: float | datetime | None, tz: str, now: float) -> datetime | float | None:
    """Return the moment of an expiry: a number means seconds from now in Celery."""
    if given is None or isinstance(given, datetime):
        return zoned(given, tz)
    return now + given
