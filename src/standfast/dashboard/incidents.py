"""What is wrong, a line for each queue and each other thing: what hurts most first, as `health` has it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

AMOUNTS = re.compile(r"\d[\d.\N{NO-BREAK SPACE}]*(?: (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?)?")
"""An alert keeps the amounts of when it was last written; it is about the same as an issue with others."""
STUCK = re.compile(r"workflow (?P<name>.*) is stuck: (?P<rest>.*); see standfast workflow show (?P<id>\S+)")
HALTED = re.compile(r"redrive (?P<name>(?P<id>\S+)) halted: (?P<rest>.*); see to it with `.*` or --cancel")
AWAY = re.compile(r"(?P<name>.*) has not answered since .*")


class Link(NamedTuple):
    """Where a line leads to, what kind of thing that is, what it is called, and what is said of it."""

    page: str
    kind: str
    name: str
    says: str


class Statement(NamedTuple):
    """One thing that is wrong, without the queue it is about; and the alert that repeats it."""

    text: str
    alert: dict[str, Any] | None = None


class Incident(NamedTuple):
    """One line: everything that is wrong with one queue, or one thing that is about none."""

    says: tuple[Statement, ...]
    queue: str | None = None

    @property
    def link(self) -> Link | None:
        """What it is about, where that has a page of its own."""
        for pattern, kind, verb in ((STUCK, "Workflow", "is stuck"), (HALTED, "Redrive", "halted")):
            if self.queue is None and (found := pattern.fullmatch(self.says[0].text)):
                return Link(f"/{kind.lower()}s/{found['id']}", kind, found["name"], f"{verb}: {found['rest']}")
        return None

    @property
    def away(self) -> str | None:
        """Name the dependency that has not answered."""
        found = AWAY.fullmatch(self.says[0].text)
        return found["name"] if self.queue is None and found else None


def incidents(issues: Iterable[str], alerts: Iterable[dict[str, Any]], queues: Iterable[str]) -> list[Incident]:
    """Give what is wrong: issues with the alert that repeats them, then the alerts that no issue says any more."""
    known = {_about(each["message"]): each for each in reversed([*alerts])}
    names = frozenset(queues)
    found = [(issue, known.pop(_about(issue), None)) for issue in issues]
    found += [(each["message"], each) for each in [*known.values()][::-1]]
    lines: dict[str, list[Statement]] = {}
    about: dict[str, str | None] = {}
    for text, alert in found:
        queue = _queue(text, names)
        line = text if queue is None else queue
        about[line] = queue
        lines.setdefault(line, []).append(Statement(text if queue is None else text.removeprefix(f"{queue}: "), alert))
    return [Incident(tuple(says), about[line]) for line, says in lines.items()]


def _about(text: str) -> str:
    return AMOUNTS.sub("#", text)


def _queue(text: str, names: frozenset[str]) -> str | None:
    """Find the queue that a text begins with. A name may have colons itself."""
    ends = (found.start() for found in re.finditer(": ", text))
    return next((text[:end] for end in ends if text[:end] in names), None)
