"""What is wrong, each thing once: an alert that says what an issue says adds since when it is so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

AMOUNTS = re.compile(r"\d[\d.]*")
"""An alert keeps the amounts of when it was last written; it is about the same as an issue with others."""


class Incident(NamedTuple):
    """One thing that is wrong."""

    text: str
    queue: str | None = None
    """The queue that its text begins with, if it is about one."""
    alert: dict[str, Any] | None = None

    @property
    def rest(self) -> str:
        """Its text without the queue."""
        return self.text if self.queue is None else self.text.removeprefix(f"{self.queue}: ")


def incidents(issues: Iterable[str], alerts: Iterable[dict[str, Any]], queues: Iterable[str]) -> list[Incident]:
    """Give what is wrong: issues with the alert that repeats them, then the alerts that no issue says any more."""
    known = {_about(each["message"]): each for each in reversed([*alerts])}
    names = frozenset(queues)
    found = [Incident(issue, _queue(issue, names), known.pop(_about(issue), None)) for issue in issues]
    left = [Incident(each["message"], _queue(each["message"], names), each) for each in known.values()]
    return found + left[::-1]


def _about(text: str) -> str:
    return AMOUNTS.sub("#", text)


def _queue(text: str, names: frozenset[str]) -> str | None:
    """Find the queue that a text begins with. A name may have colons itself."""
    ends = (found.start() for found in re.finditer(": ", text))
    return next((text[:end] for end in ends if text[:end] in names), None)
