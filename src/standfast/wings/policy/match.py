"""Decides whether a rule applies to a letter. Every key it names must fit; a list fits if any of its entries does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import msgspec

from standfast.job import RISKS
from standfast.wings.policy.facts import Facts

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}


class Bound(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One comparison, such as `>= 3`."""

    operator: str
    value: float


_FIELDS = {"class": "cls", "reason_code": "codes", "cause": "last_code"}

Range = tuple[Bound, ...]
"""Comparisons that must all hold."""


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rule requires of a letter, by key. Without any key it fits every letter."""

    texts: dict[str, tuple[str, ...]] = {}
    """Patterns for texts, any of which may fit; `*` stands for any characters."""
    labels: dict[str, tuple[str, ...]] = {}
    """The same for labels, by name. All named labels must fit."""
    ranges: dict[str, tuple[Range, ...]] = {}
    """Ranges for numbers, any of which may fit. A risk is a number by its rank."""

    def fits(self, facts: Facts) -> bool:
        """Return whether the rule applies to this letter."""
        return self.words_fit(facts) and self.numbers_fit(facts)

    def words_fit(self, facts: Facts) -> bool:
        """Return whether texts and labels fit."""
        return all(_like_any(getattr(facts, field(key)), patterns) for key, patterns in self.texts.items()) and all(
            _like_any(facts.labels.get(name), patterns) for name, patterns in self.labels.items()
        )

    def numbers_fit(self, facts: Facts) -> bool:
        """Return whether numbers and the risk fit."""
        return not self.ranges or all(_within_any(_number(facts, key), ranges) for key, ranges in self.ranges.items())


def field(key: str) -> str:
    """Return the name that a key of a match has among the facts."""
    return _FIELDS.get(key, key)


def like(text: str, pattern: str) -> bool:
    """Compare a text with a pattern, in which `*` stands for any characters or none. Linear for any pattern."""
    first, *middle = pattern.split("*")
    if not middle:
        return text == pattern
    last = middle.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _like_any(value: str | tuple[str | None, ...] | None, patterns: tuple[str, ...]) -> bool:
    """Return whether a text matches any of these patterns; of several texts, whether one does."""
    if isinstance(value, tuple):
        return any(_is_like(each, patterns) for each in value)
    return _is_like(value, patterns)


def _is_like(text: str | None, patterns: tuple[str, ...]) -> bool:
    if text is None:
        return False
    return text in patterns or any("*" in pattern and like(text, pattern) for pattern in patterns)


def _within_any(number: float | None, ranges: tuple[Range, ...]) -> bool:
    return number is not None and any(_in_bounds(number, each) for each in ranges)


def _in_bounds(number: float, bounds: Range) -> bool:
    return all(OPERATORS[bound.operator](number, bound.value) for bound in bounds)


def _number(facts: Facts, key: str) -> float | None:
    if key == "risk":
        return RISKS.index(facts.risk) if facts.risk in RISKS else None
    number: float = getattr(facts, key)
    return number
