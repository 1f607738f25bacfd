"""Do live processes declare the same? What differs, between which processes, and from what is in force."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any, NamedTuple

import msgspec

from standfast.errors import ConfigurationError
from standfast.rules import QueueRules
from standfast.spine.registry import Declaration
from standfast.wings.health.health_words import Conflict
from standfast.wings.health.scripts import Facts, WorkerRow

MOST_RULES = 3
"""How many rules a line names."""
LONGEST_VALUE = 80
AS_WRITTEN = {"replay_mode": "replay"}
"""Rules that code writes under another name."""


class Said(NamedTuple):
    """One process's declaration of a queue or handler, as JSON text."""

    process: str
    rules: str


def conflicts(workers: Iterable[WorkerRow]) -> tuple[Conflict, ...]:
    """Return the queues and handlers that two live processes declare differently, and what differs."""
    declared: defaultdict[str, list[Said]] = defaultdict(list)
    for worker in sorted(workers, key=lambda each: (each.started_at, each.id)):
        for name, rules in msgspec.json.decode(worker.declares).items():
            declared[name].append(Said(f"pid {worker.pid} on {worker.host}", rules))
    found = (_conflict(name, said) for name, said in sorted(declared.items()))
    return tuple(each for each in found if each is not None)


def overruled(facts: Facts) -> tuple[str, ...]:
    """Name the queues and handlers that a live worker declares differently from what is in force."""
    found = {
        name
        for worker in (*facts.workers, *facts.callers)
        for name, rules in msgspec.json.decode(worker.declares).items()
        if name in facts.in_force and _differ(rules, facts.in_force[name])
    }
    return tuple(sorted(found))


def _conflict(name: str, said: list[Said]) -> Conflict | None:
    """Compare the declarations of one thing: each text once, by the process that has declared it longest."""
    first_of = {each.rules: each for each in reversed(said)}
    pairs = combinations([each for each in said if first_of[each.rules] is each], 2)
    one, other = next(((one, other) for one, other in pairs if _differ(one.rules, other.rules)), (None, None))
    if one is None or other is None:
        return None
    rules, read = _differing(one.rules, other.rules)
    if not rules:
        return Conflict(name, (one.process, other.process))
    both = zip((one, other), read, strict=True)
    return Conflict(name, tuple(f"{side.process} has {_values(rules, values)}" for side, values in both))


def _differ(one: str, other: str) -> bool:
    """Return whether two declarations disagree in a rule that both name: a settings file names only some rules."""
    rules, read = _differing(one, other)
    return bool(rules) if read else one != other


def _differing(one: str, other: str) -> tuple[list[str], tuple[dict[str, Any], ...]]:
    """Return the rules in which two declarations differ, and both; nothing if only another version can read them."""
    first, second = _meaning(one), _meaning(other)
    if first is None or second is None:
        return [], ()
    return [rule for rule in first if rule in second and first[rule] != second[rule]], (first, second)


def _values(rules: list[str], values: dict[str, Any]) -> str:
    shown = [f"{AS_WRITTEN.get(rule, rule)}={_short(values[rule])}" for rule in rules[:MOST_RULES]]
    return ", ".join(shown) if len(rules) <= MOST_RULES else f"{', '.join(shown)} and others"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _meaning(declared: str) -> dict[str, Any] | None:
    """Read the declared rules, which can be written in many ways; None if only another version can read them."""
    try:
        given = msgspec.json.decode(declared, type=dict[str, Any])
        if given.keys() == {"replay"}:  # the default of a settings file, which belongs to no single queue
            return given
        read = msgspec.convert(given, Declaration if "replay_mode" in given else QueueRules)
    except (msgspec.DecodeError, ConfigurationError):
        return None
    return {rule: getattr(read, rule) for rule in given if hasattr(read, rule)}
