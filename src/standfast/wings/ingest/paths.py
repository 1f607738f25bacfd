"""JSON paths, a small and safe subset: `$`, `$.data.user`, `$.items[0].id`, `$['odd name']`.

No wildcards, no filters, no recursion: a path names one value, and finding it takes as many steps as it has parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from standfast.errors import ConfigurationError

LONGEST = 500
MISSING: Any = object()
"""The value of a path that leads to nothing."""

_PART = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]|\['([^'\\\]]+)'\]", re.ASCII)


def is_path(value: object) -> bool:
    """Return whether a setting is a path and not a plain text: a path begins with `$`."""
    return isinstance(value, str) and value.startswith("$")


def parts(path: str) -> list[str | int]:
    """Parse a path; refuse a text that is not one."""
    found: list[str | int] = []
    at = 1
    while at < len(path):
        part = _PART.match(path, at) if len(path) <= LONGEST else None
        if part is None:
            raise ConfigurationError(
                f"{path!r} is not a path; write $ for the whole, $.data.user, $.items[0].id or $['odd name']"
            )
        found.append(int(part[2]) if part[2] else part[1] or part[3])
        at = part.end()
    return found


def value_at(path: str, document: Any) -> Any:
    """Return the value at a path, or MISSING."""
    return value_in(parts(path), document)


def value_in(steps: Iterable[str | int], document: Any) -> Any:
    """Return the value at a path that was parsed before, or MISSING."""
    value = document
    for part in steps:
        value = _inside(value, part)
    return value


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, dict) and isinstance(part, str):
        return value.get(part, MISSING)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return MISSING
