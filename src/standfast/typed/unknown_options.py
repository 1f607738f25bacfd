"""Options that a call does not take: the error names the most similar option, unlike a bare TypeError."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from standfast.errors import SYNONYMS, ConfigurationError
from standfast.rules import QueueRules


def refuse_unknown(call: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse the first option that a call does not take."""
    for name in given:
        raise ConfigurationError.unknown(f"option of {call}", name, known)


def refuse_unknown_of_handler(queue: object, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse an option that `@sf.handler` does not take; rules of a queue are declared with the queue."""
    for name in given:
        rule = SYNONYMS.get(name, name)
        if rule in QueueRules.__struct_fields__:
            raise ConfigurationError(
                f"unknown option of @sf.handler {name!r}; {rule!r} is a rule of the queue: "
                f"write sf.queue({queue!r}, {rule}={given[name]!r})"
            )
    refuse_unknown("@sf.handler", given, known)
