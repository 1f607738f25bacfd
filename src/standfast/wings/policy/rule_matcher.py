"""Finds the first rule that applies to a letter: once for all letters that look alike to the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from standfast.wings.policy.facts import Facts
from standfast.wings.policy.match import Match, field

MOST_KINDS = 1024
"""The most kinds of letters that are remembered: sessions and labels may make each letter a kind of its own."""


class Rule(Protocol):
    """Anything that applies to some letters."""

    @property
    def match(self) -> Match:
        """Which letters it applies to."""


Kind = TypeVar("Kind", bound=Rule)


class RuleMatcher(Generic[Kind]):
    """Rules in order, prepared so that even very many letters can be matched quickly.

    Letters are alike if they have the same words wherever any rule looks at words. The rules that may apply to them are
    remembered, and only numbers (attempts, replays, age, risk) are compared for each letter.
    """

    def __init__(self, rules: Sequence[Kind]) -> None:
        """Prepare these rules."""
        self._rules = tuple(enumerate(rules, 1))
        self._words = [attrgetter(field(key)) for key in sorted({key for rule in rules for key in rule.match.texts})]
        self._labels = sorted({name for rule in rules for name in rule.match.labels})
        self.remembered: dict[tuple[Any, ...], tuple[tuple[int, Kind], ...]] = {}

    def first(self, facts: Facts) -> tuple[int, Kind] | None:
        """Return the first rule that applies to this letter, with its place counted from 1."""
        return next(self.all(facts), None)

    def all(self, facts: Facts) -> Iterator[tuple[int, Kind]]:
        """Return the rules that apply to this letter, in order, each with its place counted from 1."""
        return (each for each in self._that_may_speak(facts) if each[1].match.numbers_fit(facts))

    def _that_may_speak(self, facts: Facts) -> tuple[tuple[int, Kind], ...]:
        alike = (*[word(facts) for word in self._words], *[facts.labels.get(name) for name in self._labels])
        known = self.remembered.get(alike)
        if known is None:
            if len(self.remembered) >= MOST_KINDS:
                self.remembered.clear()
            known = self.remembered[alike] = tuple(each for each in self._rules if each[1].match.words_fit(facts))
        return known
