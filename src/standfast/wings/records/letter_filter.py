"""Which letters: what a filter may name, and what each name means to the store."""

from __future__ import annotations

from typing import Any

from standfast.errors import ConfigurationError
from standfast.failure import Class, Landed, known_code
from standfast.lifecycle import REPLAY_STATUSES
from standfast.rules import seconds
from standfast.wings.records.reads import LetterFilter
from standfast.wings.records.view import after, one_of

FILTERS = ("queue", "reason_code", "cause", "class", "landed", "replay_status", "fingerprint", "older_than")


def letter_filter(given: dict[str, Any], now: float, limit: int, cursor: int | None = None) -> LetterFilter:
    """Read a filter; a name or word that does not exist is refused."""
    unknown = sorted(set(given) - set(FILTERS))
    if unknown:
        raise ConfigurationError.unknown("filter", unknown[0], FILTERS)
    age = seconds(given.get("older_than"))
    return LetterFilter(
        queue=given.get("queue"),
        reason_code=_code(given.get("reason_code")),
        cause=_code(given.get("cause")),
        failure_class=one_of("class", given.get("class"), Class),
        landed=one_of("landed", given.get("landed"), Landed),
        replay_status=one_of("replay_status", given.get("replay_status"), REPLAY_STATUSES),
        fingerprint=given.get("fingerprint"),
        finished_before=None if age is None else now - age,
        limit=limit,
        before=after(cursor) or LetterFilter().before,
    )


def _code(given: Any) -> Any:
    return known_code(given) if isinstance(given, str) else given
