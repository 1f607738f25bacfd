"""The rules of a queue in words: durations, numbers and waits as people read them."""

from __future__ import annotations

from typing import Any

from standfast.rules import DURATIONS, Backoff, Breaker, Limit, QueueRules, Rate, Retention
from standfast.wings.records.figures import count_of, number, span


def rules_in_words(rules: QueueRules) -> dict[str, str]:
    """Describe every rule that is set; None means that there is no such rule."""
    given = ((name, getattr(rules, name)) for name in QueueRules.__struct_fields__)
    return {name: rule_in_words(name, value) for name, value in given if value is not None}


def rule_in_words(name: str, value: Any) -> str:
    """Describe one rule."""
    match value:
        case Backoff():
            return wait_in_words(value)
        case Limit():
            return f"{number(value.limit)}{_each(value.key)}"
        case Rate():
            burst = "" if value.burst is None else f", {number(value.burst)} at the same moment"
            return f"{number(value.limit)} in {span(value.per)}{_each(value.key)}{burst}"
        case Breaker():
            of = "" if value.dependency is None else f"{value.dependency}, "
            return f"{of}after {count_of(value.failures, 'failure')} for {span(value.open_for)}"
        case Retention():
            age = [] if value.age is None else [span(value.age)]
            return ", ".join([*age, *([f"the newest {number(value.count)}"] if value.count else [])])
        case tuple():
            return ", ".join(map(str, value))
        case int() | float():
            return span(value) if name in DURATIONS else number(int(value) if value == int(value) else value)
        case _:
            return str(value)


def wait_in_words(backoff: Backoff) -> str:
    """Describe how long a retry waits."""
    if backoff.base is not None:
        return f"{span(backoff.base)} doubling to {span(backoff.cap)}"
    first, last = backoff.table[0], backoff.table[-1]
    return f"{span(first)} to {span(last)}" if first != last else span(first) if first else "none"


def _each(key: str | None) -> str:
    return "" if key is None else f" for each {key}"
