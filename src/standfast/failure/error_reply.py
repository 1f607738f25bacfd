"""The reply that an exception carries: its status, and how long it asks its caller to wait.

Clients keep a reply in different places: `response.status_code`, `status`, `code`, a dict. No client is imported to
find it, and errors raised by a client's objects are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from standfast.concurrency.guarded import call_guarded
from standfast.errors import HandlerFailure
from standfast.failure.evidence import STATUS_ATTRIBUTES, attribute, is_rate_limit, type_names
from standfast.failure.retry_after import honour_retry_after, read_retry_after, requested_wait

REFUSES_FOR_NOW = frozenset({429, 503})
"""Statuses that say "not now"; with a time to come back they are not a failure."""
DEEPEST = 10
"""How many exceptions deep a cause is looked for."""
MOST_LOOKED_AT = 200
"""How many exceptions of a group, including nested groups, are examined: each costs the loop 0.1 ms."""

_DELAY = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")


def status_of(error: BaseException) -> int | None:
    """Return the status of the reply that an exception carries, or None."""
    named = next((STATUS_ATTRIBUTES[name] for name in type_names(error) if name in STATUS_ATTRIBUTES), "status_code")
    response = attribute(error, "response")
    for status in (attribute(error, named), attribute(response, "status_code"), _dig(_metadata(error), _STATUS)):
        if isinstance(status, int) and not isinstance(status, bool):
            return int(status)
    return None


def wait_of(error: BaseException) -> float | None:
    """Return the seconds that an exception, or the reply that it carries, asks to wait; None if it does not ask."""
    own = as_wait(attribute(error, "retry_after"))
    if own is not None:
        return own
    found = requested_wait(lambda name: _header(error, name))
    return _retry_info(error) if found is None else found


def as_wait(value: object) -> float | None:
    """Read a time to wait: seconds as a number or as text, or a timedelta; None for anything else."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        return read_retry_after(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return honour_retry_after(value)


def refusal_in(error: BaseException) -> float | None:
    """Return the seconds after which a receiver said to come back, from any exception in the chain that has its reply.

    The chain is what the exception was raised from, or else while handling, and the members of groups in it.
    """
    return call_guarded(lambda: _refusal(error, iter(range(MOST_LOOKED_AT))), lambda _error: None)


def _refusal(error: BaseException, looks: Iterator[int], path: tuple[int, ...] = ()) -> float | None:
    if len(path) >= DEEPEST or id(error) in path or next(looks, None) is None:
        return None
    own = wait_of(error) if refuses_for_now(error) else None
    if own is not None:
        return own
    members = error.exceptions[:MOST_LOOKED_AT] if isinstance(error, BaseExceptionGroup) else ()
    around = None if error.__suppress_context__ else error.__context__
    following = (*members, *filter(None, [error.__cause__ or around]))
    waits = [_refusal(each, looks, (*path, id(error))) for each in following]
    return max((wait for wait in waits if wait is not None), default=None)


def refuses_for_now(error: BaseException) -> bool:
    """Return whether an exception says "not now": by its reply's status, or by a kind that means this."""
    if isinstance(error, HandlerFailure):
        return is_rate_limit(error)
    return status_of(error) in REFUSES_FOR_NOW or is_rate_limit(error)


# --- where clients keep it

_STATUS = ("HTTPStatusCode",)
_HEADERS = ("HTTPHeaders",)


def _metadata(error: BaseException) -> object:
    """Return what botocore keeps of a reply, which is a dict."""
    return _dig(attribute(error, "response"), ("ResponseMetadata",))


def _dig(found: object, path: tuple[str, ...]) -> Any:
    """Look up a path in nested dicts."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _header(error: BaseException, name: str) -> str | None:
    """Read a header of an exception's reply. Most clients' headers ignore case; plain dicts do not."""
    kept = [attribute(reply, "headers") for reply in (attribute(error, "response"), error)]
    values = (_look_up(headers, name) for headers in (*kept, _dig(_metadata(error), _HEADERS)))
    return next((str(value) for value in values if isinstance(value, str | int)), None)


def _look_up(headers: object, name: str) -> object:
    if isinstance(headers, dict):
        return next((value for key, value in headers.items() if str(key).lower() == name.lower()), None)
    get = attribute(headers, "get")
    return call_guarded(lambda: get(name), lambda _error: None) if callable(get) else None


def _retry_info(error: BaseException) -> float | None:
    """Read `RetryInfo` from the body that Google's clients keep: their 429 rarely has a header."""
    details = _dig(attribute(error, "details"), ("error", "details"))
    delays = (_dig(each, ("retryDelay",)) for each in details) if isinstance(details, list) else ()
    found = next((match for each in delays if isinstance(each, str) and (match := _DELAY.fullmatch(each))), None)
    return honour_retry_after(float(found[1])) if found else None
