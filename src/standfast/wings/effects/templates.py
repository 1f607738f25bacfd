"""Values that depend on a job: templates such as `"{payload.path}"`, and callables of the job."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from standfast.errors import ConfigurationError

if TYPE_CHECKING:
    from standfast.wings.effects.handler_job import Job

LONGEST_WORDS = 300

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_KNOWN = re.compile(r"key|job\.(?:id|queue|idempotency_key|session|requester)|payload(?:\.[^.{}]+)*")


class CannotTell(LookupError):
    """Raised by a look that cannot tell, with a readable reason."""


def checked(what: str, template: Any) -> Any:
    """Refuse a template that can never be filled, now rather than when it is needed."""
    if isinstance(template, str):
        for piece in _PIECE.finditer(template):
            place = piece.group(1)
            if piece.group() in "{}" or (place is not None and not _KNOWN.fullmatch(place)):
                raise ConfigurationError(
                    f"{what} {template!r} has {piece.group()!r}; known are {{payload.name}}, {{key}}, {{job.id}}, "
                    "{job.idempotency_key}, {job.queue}, {job.session}, {job.requester}; write {{ and }} for braces"
                )
    return template


def filled(template: Any, job: Job, key: str, safe: Callable[[str], str] = str) -> Any:
    """Fill a template for a job, or call the callable for its value; any other value is returned as it is.

    `safe` escapes a value for its place. A template that is only one place becomes that value, unescaped.
    """
    if callable(template):
        return template(job)
    if not isinstance(template, str):
        return template
    whole = _PIECE.fullmatch(template)
    if whole is not None and whole.group(1):
        return str(_value(whole.group(1), job, key))
    return _PIECE.sub(lambda piece: _filled(piece, job, key, safe), template)


def _filled(piece: re.Match[str], job: Job, key: str, safe: Callable[[str], str]) -> str:
    place = piece.group(1)
    return piece.group()[0] if place is None else safe(str(_value(place, job, key)))


def _value(place: str, job: Job, key: str) -> Any:
    first, *rest = place.split(".")
    if first == "key":
        return key
    if first == "job":
        return getattr(job, rest[0])
    value = job.payload
    for name in rest:
        value = _inside(place, value, name)
    if isinstance(value, dict | list) or value is None:
        raise CannotTell(f"{{{place}}} is {type(value).__name__} in the payload, not text")
    return value


def _inside(place: str, value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    has = f"names there are {', '.join(map(str, value))}" if isinstance(value, dict) and value else "nothing is there"
    raise CannotTell(f"the payload has no {{{place}}}: {has}"[:LONGEST_WORDS])
