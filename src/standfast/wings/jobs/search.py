"""Check the filters of a job search, and build its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.failure import known_code
from standfast.lifecycle import VIEWS, State
from standfast.redact import is_shown
from standfast.views import JobView
from standfast.wings.access.words import Reach
from standfast.wings.records.listing import Filter, Sought
from standfast.wings.records.view import HIDDEN, Page, after, job_view, one_of, whole_page

LONGEST_SOUGHT = 500
"""The most characters of a filter's value."""


def checked_filter(named: Mapping[str, str | None], limit: int, cursor: int | None, reach: Reach) -> Filter:
    """Check the arguments of a search."""
    filters: dict[str, Any] = {name: _text(name, value) for name, value in named.items() if value is not None}
    one_of("state", filters.get("state"), State)
    one_of("view", filters.get("view"), VIEWS)
    if "reason_code" in filters:
        filters["reason_code"] = known_code(filters["reason_code"])
    if "label" in filters:
        filters["label"], _, value = filters["label"].partition(":")
        filters["label_value"] = value or None
        _check_shown(filters["label"], value, reach)
    whole_page(limit)
    filters |= {"queues": reach.queues, "requester": reach.requester, "in_payload": reach.payloads}
    return Filter(**filters, limit=limit, before=after(cursor) or Filter().before)


def _check_shown(label: str, value: str, reach: Reach) -> None:
    """Refuse to search for a value that the caller may not see: a short secret could be found by trial."""
    if value and not reach.payloads and not is_shown(label, value):
        raise ConfigurationError(
            f"the value of label {label!r} is hidden from you; search for the label by its name alone"
        )


def _shows(view: JobView, q: str) -> bool:
    """Return whether a text occurs in what is shown of a job, as it is or as JSON writes it."""
    if not _hides_headers(view):
        return True
    shown = msgspec.json.encode(view).decode()
    return q in shown or msgspec.json.encode(q).decode()[1:-1] in shown


def _hides_headers(view: JobView) -> bool:
    headers = view.payload.get("headers") if isinstance(view.payload, dict) else None
    return isinstance(headers, dict) and HIDDEN in headers.values()


def _text(name: str, value: object) -> str:
    """Check a text: not every store can be asked for every text."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST_SOUGHT:
        raise ConfigurationError(f"{name} must be printable text of at most {LONGEST_SOUGHT} characters")
    return value


def checked_flag(name: str, value: object) -> bool | None:
    """Check a value that is True, False or left out."""
    if value is None or isinstance(value, bool):
        return value
    raise ConfigurationError(f"{name} must be True or False, not {value!r}")


def page(found: Sought, *, now: float, skew: float, q: str | None = None) -> Page:
    """Build the page of what was found.

    Jobs that `q` matched only in a header that no view shows are left out: the header could be guessed by trial.
    """
    views = (job_view(record, now=now, skew=skew) for record in found.records)
    made = Page(view for view in views if q is None or _shows(view, q))
    made.next_cursor, made.scanned = found.next_before, found.scanned
    return made
