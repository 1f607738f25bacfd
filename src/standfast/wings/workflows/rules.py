"""Workflows: the order of their steps, which graphs are refused, and what a waiting step waits for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from standfast.lifecycle import FINAL, LETTERS, State
from standfast.wings.records.view import MOST_NAMED, Blocker, waits_for

LONGEST_CIRCLE = 10
"""How many steps of a cycle are named."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a graph is refused, and what to do."""

    why: str


class Plan(msgspec.Struct, frozen=True):
    """The steps in an order in which each comes after its parents, and each one's parents as indexes into the order."""

    order: list[str]
    parents: list[list[int]]


def plan(steps: Sequence[tuple[str, Sequence[str]]]) -> Plan | Refusal:
    """Order steps, each given with the steps it comes after. Takes time linear in steps and links."""
    after = dict(steps)
    if not after:
        return Refusal("a workflow needs at least one step; add one with step()")
    if len(after) < len(steps):
        twice = next(name for name, number in Counter(name for name, _ in steps).items() if number > 1)
        return Refusal(f"two steps are called {twice!r}; give each its own name")
    for name, before in after.items():
        unknown = next((each for each in before if each not in after), None)
        if unknown is not None:
            return Refusal(f"step {name!r} comes after {unknown!r}, and no step is called so")
    order = _ordered(after)
    if len(order) < len(after):
        return Refusal(f"these steps wait for each other: {_circle(after, set(order))}; take one of the links away")
    places = {name: place for place, name in enumerate(order)}
    return Plan(order, [sorted({places[each] for each in after[name]}) for name in order])


def _ordered(after: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps that can be ordered: as written if that is an order, else level by level."""
    if _is_ordered(after):
        return list(after)
    waits = {name: len(set(before)) for name, before in after.items()}
    behind: dict[str, list[str]] = {name: [] for name in after}
    for name, before in after.items():
        for each in set(before):
            behind[each].append(name)
    free = deque(name for name, number in waits.items() if not number)
    order = []
    while free:
        order.append(free.popleft())
        for name in behind[order[-1]]:
            waits[name] -= 1
            if not waits[name]:
                free.append(name)
    return order


def _is_ordered(after: Mapping[str, Sequence[str]]) -> bool:
    seen: set[str] = set()
    for name, before in after.items():
        if not seen.issuperset(before):
            return False
        seen.add(name)
    return True


def _circle(after: Mapping[str, Sequence[str]], ordered: set[str]) -> str:
    """Name the steps of one cycle, in the order they would run. Each unordered step waits for another unordered one."""
    at = next(name for name in after if name not in ordered)
    way: dict[str, int] = {}
    while at not in way:
        way[at] = len(way)
        at = next(each for each in after[at] if each not in ordered)
    circle = [*list(way)[way[at] :][::-1]]
    named = circle if len(circle) <= LONGEST_CIRCLE else [*circle[:LONGEST_CIRCLE], f"… ({len(circle)} steps)"]
    return " → ".join([*named, circle[0]])


# --- what a step waits for


def issues(stuck: Sequence[tuple[str, str, int, int]], most: int) -> list[str]:
    """Word an issue for each stuck workflow: id, name, how many steps stopped, how many are not done."""
    named = [
        f"workflow {name} is stuck: {_count(stopped)} stopped, {unfinished} not done; see standfast workflow show {id_}"
        for id_, name, stopped, unfinished in stuck[:most]
    ]
    return [*named, "more workflows are stuck; see standfast workflow list --state stuck"] if stuck[most:] else named


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


class Link(msgspec.Struct, frozen=True):
    """A step of a stored workflow: its number, its parents' numbers, and the step as a blocker of those behind it."""

    n: int
    parents: Sequence[int]
    step: Blocker


def reasons(steps: Iterable[Link]) -> dict[int, str]:
    """Say for each waiting step what it waits for. The steps must be in the order of the graph.

    A step behind a waiting step waits for the same blockers, so that each link is visited once. A few names are enough.
    """
    known: dict[int, Link] = {}
    blockers: dict[int, list[Blocker]] = {}
    for link in steps:
        known[link.n] = link
        if link.step.state == State.WAITING:
            blockers[link.n] = _blockers(link, known, blockers)
    return {n: waits_for(found) for n, found in blockers.items()}


def _blockers(link: Link, known: Mapping[int, Link], blockers: Mapping[int, list[Blocker]]) -> list[Blocker]:
    found: dict[str, Blocker] = {}
    stopped = False
    for n in link.parents:
        before = known.get(n)
        if before is None or before.step.state in FINAL:
            continue
        for each in blockers.get(n, [before.step]):
            found.setdefault(each.step, each)
            stopped = stopped or each.state in LETTERS
        if stopped and len(found) > 2 * MOST_NAMED:
            break
    ordered = sorted(found.values(), key=lambda each: each.state not in LETTERS)
    return ordered[: MOST_NAMED + 1]


def layers(after: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return for each step how many steps are on the longest path to it. Steps come after those they wait for."""
    depths: dict[str, int] = {}
    for name, before in after.items():
        depths[name] = 1 + max((depths[each] for each in before), default=-1)
    return depths
