"""What an amendment changed, in a form that may be kept forever; and the key of an amended job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from standfast.redact import redacted_text

MOST = 20
"""The most changed places of a payload that are named one by one."""
LONGEST = 40
"""The most characters of a text that is shown; a longer one shows its length: people's texts stay out of the chain."""
NOTHING = object()


def changes(before: Any, after: Any) -> dict[str, list[Any]]:
    """Return the places where two payloads differ, with both values, shortened; storing this hides secrets."""
    found: dict[str, list[Any]] = {}
    for place, old, new in _differences("payload", before, after):
        if len(found) == MOST:
            return {**found, "…": ["more", "more"]}
        found[place] = [_shortened(old), _shortened(new)]
    return found


def _differences(place: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from _differences(f"{place}.{name}", before.get(name, NOTHING), after.get(name, NOTHING))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(f"{place}[{index}]", old, new)
    elif type(before) is not type(after) or before != after:
        yield place, before, after


def _shortened(value: Any) -> Any:
    if value is NOTHING:
        return "nothing"
    if isinstance(value, dict | list):
        return f"{len(value)} values"
    if isinstance(value, str):
        return redacted_text(value, emails=True) if len(value) <= LONGEST else f"text of {len(value)} characters"
    return value


def next_key(key: str | None, generation: int) -> str | None:
    """Return the key of the next generation: receivers must not answer it with their answer to the last one."""
    return None if key is None else f"{key.removesuffix(f'~g{generation}')}~g{generation + 1}"
