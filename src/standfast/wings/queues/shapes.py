"""The answers of routes about queues."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from standfast.rules import QueueRules


class ShownPause(TypedDict):
    """Who paused a queue, when, and why if a reason was given."""

    by: str
    since: datetime
    reason: str | None


class QueueCounts(TypedDict):
    """What one queue holds, and what has happened there so far."""

    due: int
    running: int
    scheduled: int
    parked: int
    waiting: int
    letters: int
    awaiting_consent: int
    """How many of its letters are held until a person consents."""
    paused: bool
    pause: ShownPause | None
    """Who paused it; null if it is open, or if an older version paused it."""
    counters: dict[str, int]


class QueueHandler(TypedDict):
    """One published handler of a queue."""

    name: str
    replay: str
    risk: str | None
    timeout: float | None
    consent: bool


class ShownQueue(QueueCounts):
    """One queue with its rules in force, and how many live workers serve it."""

    name: str
    workers: int
    rules: QueueRules
    rules_from: str
    """Where they come from: declared, default, profile, or profile, changed."""
    handlers: list[QueueHandler]


class QueueList(TypedDict):
    """Every queue that the token reaches, by name."""

    items: list[ShownQueue]


class QueueSwitch(TypedDict):
    """Whether a queue is paused now."""

    name: str
    paused: bool


class TriedNow(TypedDict):
    """The dependency to try now, and whether any job was held back for it."""

    dependency: str
    trying: bool
