"""What is wrong, one line per queue and per other thing: the worst first, in the order of `health`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

AMOUNTS = re.compile(r"\d[\d.\N{NO-BREAK SPACE}]*(?: (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?)?")
"""An alert keeps the figures of its last update; without figures, it equals the issue that it repeats."""
STUCK = re.compile(r"workflow (?P<name>.*) is stuck: (?P<rest>.*); see standfast workflow show (?P<id>\S+)")
HALTED = re.compile(r"redrive (?P<name>(?P<id>\S+)) halted: (?P<rest>.*); see to it with `.*` or --cancel")
AWAY = re.compile(r"(?P<name>.*) has not answered since .*")


class Link(NamedTuple):
    """Where a line links to: the page, the kind of thing, its name, and the text after it."""

    page: str
    kind: str
    name: str
    says: str


class Statement(NamedTuple):
    """One thing that is wrong, without the name of its queue; and the alert that repeats it."""

    text: str
    alert: dict[str, Any] | None = None


class Incident(NamedTuple):
    """One line: everything that is wrong with one queue, or one thing that belongs to no queue."""

    says: tuple[Statement, ...]
    queue: str | None = None

    @property
    def link(self) -> Link | None:
        """The page about this incident, if there is one."""
        for pattern, kind, verb in ((STUCK, "Workflow", "is stuck"), (HALTED, "Redrive", "halted")):
            if self.queue is None and (found := pattern.fullmatch(self.says[0].text)):
                return Link(f"/{kind.lower()}s/{found['id']}", kind, found["name"], f"{verb}: {found['rest']}")
        return None

    @property
    def away(self) -> str | None:
        """The dependency that has not answered, if that is the incident."""
        found = AWAY.fullmatch(self.says[0].text)
        return found["name"] if self.queue is None and found else None


def incidents(issues: Iterable[str], alerts: Iterable[dict[str, Any]], queues: Iterable[str]) -> list[Incident]:
    """Return what is wrong: issues with the alerts that repeat them, then alerts whose issue is no longer listed."""
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
    """Find the queue that a text begins with. Its name may itself contain colons."""
    ends = (found.start() for found in re.finditer(": ", text))
    return next((text[:end] for end in ends if text[:end] in names), None)
