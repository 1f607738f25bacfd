"""Which letters: the names a filter may use, and what each means to the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from standfast.errors import ConfigurationError
from standfast.failure import Class, Landed, known_code
from standfast.lifecycle import LETTERS
from standfast.rules import seconds
from standfast.typed.letter_options import LetterFilter
from standfast.views import REPLAY_STATUSES
from standfast.wings.records.reads import SoughtLetters
from standfast.wings.records.view import after, one_of

FILTERS = tuple(LetterFilter.__annotations__)
IN_PAYLOAD = "payload."
"""Prefix of a name that is a path into the payload: `payload.customer.id`."""
IN_BODIES = ("text", "payload")
"""Filters on what a job was enqueued with, which is not read to count letters."""
LONGEST_SOUGHT = 500
SEPARATOR = "\x1f"
HEADERS = "headers"
"""The part of a request that no view shows whole."""
_KEY = re.compile(r"[^\".\s\x00-\x1f]{1,100}")
_LITERAL = re.compile(r"-?\d[\d.eE+-]*|true|false|null")


def as_filter(names: Mapping[str, Any]) -> LetterFilter:
    """Take names and values from outside as a filter; `letter_filter` refuses them if they are not one."""
    return cast("LetterFilter", names)


def letter_filter(
    given: LetterFilter, now: float, limit: int, cursor: int | None = None, *, skew: float = 0.0
) -> SoughtLetters:
    """Read a filter; an unknown name or word is refused. `skew` is wall time minus queue time."""
    named = _with_one_path(given)
    unknown = sorted(set(named) - set(FILTERS))
    if unknown:
        raise ConfigurationError.unknown("filter", unknown[0], (*FILTERS, f"{IN_PAYLOAD}PATH"))
    age, until = seconds(named.get("older_than")), _moment("until", named.get("until"), skew)
    before = [each for each in (None if age is None else now - age, until) if each is not None]
    return SoughtLetters(
        queue=named.get("queue"),
        reason_code=_code(named.get("reason_code")),
        cause=_code(named.get("cause")),
        failure_class=one_of("class", named.get("class"), Class),
        landed=one_of("landed", named.get("landed"), Landed),
        replay_status=one_of("replay_status", named.get("replay_status"), REPLAY_STATUSES),
        fingerprint=named.get("fingerprint"),
        finished_before=min(before, default=None),
        finished_since=_moment("since", named.get("since"), skew),
        handler=_text("handler", named.get("handler")),
        state=one_of("state", named.get("state"), LETTERS),
        error_kind=_text("error_kind", named.get("error_kind")),
        session=_text("session", named.get("session")),
        thread_key=_text("thread_key", named.get("thread_key")),
        limit=limit,
        before=after(cursor) or SoughtLetters().before,
        **_in_body(named),
    )


def check_countable(given: LetterFilter) -> None:
    """Refuse a filter that would read every dead letter's payload while all other callers wait for the store."""
    named = [name for name in _with_one_path(given) if name in IN_BODIES]
    if named:
        raise ConfigurationError(
            f"letters are not purged by {named[0]}: to count them would read every payload at once; nothing was "
            "deleted: purge by queue, handler, cause or time, or discard them one by one"
        )


def _with_one_path(chosen: LetterFilter) -> dict[str, Any]:
    """Return the filter with its path into the payload, and the value there, under `payload`."""
    given: dict[str, Any] = {**chosen}
    paths = [name for name in given if name.startswith(IN_PAYLOAD)]
    if len(paths) + ("payload" in given) > 1:
        raise ConfigurationError("a filter names one path into the payload, not several")
    if paths:
        rest = {name: value for name, value in given.items() if name != paths[0]}
        return {**rest, "payload": (paths[0].removeprefix(IN_PAYLOAD), given[paths[0]])}
    return {**given, "payload": _path_and_value(given["payload"])} if "payload" in given else given


def _path_and_value(sought: Any) -> tuple[str, Any]:
    if isinstance(sought, str):
        path, equals, value = sought.partition("=")
        if equals:
            return path, value
    elif isinstance(sought, tuple | list) and len(sought) == len(("path", "value")) and isinstance(sought[0], str):
        return sought[0], sought[1]
    raise ConfigurationError(
        f"payload={sought!r} is neither PATH=VALUE, as in customer.id=42, nor a path and a value: ('customer.id', 42)"
    )


def _in_body(named: dict[str, Any]) -> dict[str, Any]:
    """Read the filters on what a job was enqueued with."""
    label, _, value = (_text("label", named.get("label")) or "").partition(":")
    sought = _text("text", named.get("text"))
    found: dict[str, Any] = {"label": label or None, "label_value": value or None, "text": sought}
    found["quoted"] = None if sought is None else _json(sought)[1:-1]
    return found | (_at_path(*named["payload"]) if "payload" in named else {})


def _at_path(path: str, value: Any) -> dict[str, Any]:
    keys = path.split(".")
    if any(not _KEY.fullmatch(key) or key.isdigit() for key in keys):
        raise ConfigurationError(
            f"{path!r} is not a path into a payload; name keys with dots between them: customer.id"
        )
    literal = value if isinstance(value, str) and _LITERAL.fullmatch(value) else None
    return {
        "payload_path": "$" + "".join(f'."{key}"' for key in keys),
        "payload_keys": SEPARATOR.join(keys),
        "payload_text": _json(value),
        "payload_literal": literal,
        "payload_hidden": keys[0] == HEADERS,
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(name: str, given: Any) -> str | None:
    """Check a text: not every store can be asked for every text."""
    if given is None:
        return None
    if not isinstance(given, str) or not given or not given.isprintable() or len(given) > LONGEST_SOUGHT:
        raise ConfigurationError(f"{name} must be printable text of 1 to {LONGEST_SOUGHT} characters")
    return given


def _moment(name: str, given: Any, skew: float) -> float | None:
    """Read a moment as queue time: a datetime, an RFC 3339 text, or seconds since 1970."""
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        found = given
    if isinstance(found, datetime) and found.utcoffset() is not None:
        return found.timestamp() - skew
    if isinstance(found, int | float) and not isinstance(found, bool):
        return found - skew
    raise ConfigurationError(f"{name}={given!r} is not a time with a zone; write for example 2026-12-24T18:00:00Z")


def _code(given: Any) -> Any:
    return known_code(given) if isinstance(given, str) else given
