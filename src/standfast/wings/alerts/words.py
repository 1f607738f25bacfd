"""Alerts: something is wrong, and surfaces are told when it begins, when there is more of it, and when it is over.

An alert is opened by one of two things. All that follows is the same for both: it is kept in the store, routed to
surfaces, told by jobs that are stored with the note of it (`announcer.tell`), and closed.

- `LetterAlert`: loud letters of one cause, as the journal brings them. It is told once they have settled, then what
  came since, once a window; a window without another letter closes it.
- `OpenAlert`: a condition, as a look sees it. It is told at its beginning and at its end, which is when the condition
  has been gone for a minute.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec


class AlertKind(StrEnum):
    """What may be wrong. The names are those of routes, metrics and rules, too."""

    DEPTH = "depth"
    DEAD_LETTERS = "dead_letters"
    GROWTH = "dead_letter_growth"
    DENIALS = "replay_denials"
    NO_WORKER = "no_worker"
    LATE_SWEEPER = "late_sweeper"
    STALLED = "stalled"
    OVERDUE = "overdue"
    IDLE = "zero_activity"
    DEAD_SINK = "dead_sink"
    LOW_DISK = "low_disk"


ADVICE = {
    AlertKind.DEPTH: "What its handlers call is probably down or slow; look: standfast stats, standfast health",
    AlertKind.DEAD_LETTERS: "See the causes, then replay what can succeed now: standfast dead groups",
    AlertKind.GROWTH: "Something is failing right now; see the causes: standfast dead groups",
    AlertKind.DENIALS: "Either the policy is too strict or a client keeps asking: standfast policy show",
    AlertKind.NO_WORKER: "Start a worker that serves it: standfast worker app:sf",
    AlertKind.LATE_SWEEPER: "If a worker runs all the same, look at its log",
    AlertKind.STALLED: "See why one of its jobs waits: standfast jobs, then standfast explain ID",
    AlertKind.OVERDUE: "A plain function cannot be stopped; see what it waits for, or restart its worker",
    AlertKind.IDLE: "No job of this queue has started for that long; check that its producer still runs",
    AlertKind.DEAD_SINK: "Look at the address and its secret in [notify], then replay: standfast dead list",
    AlertKind.LOW_DISK: "Free some space: new work is refused, and soon nothing more is started",
}
"""What to do about each, in one line."""

Key = tuple[str, str, str]
"""What tells one alert from another while both are open: its kind, its queue, and what else it is about."""


class Condition(msgspec.Struct, frozen=True):
    """Something that is wrong just now. Without a queue it is about the whole store."""

    kind: AlertKind
    message: str
    queue: str = ""
    subject: str = ""
    """Which of several things of a queue, or of the store, it is about: the surface that takes nothing."""
    value: float = 1.0
    threshold: float = 0.0

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return (self.kind, self.queue, self.subject)

    @property
    def name(self) -> str:
        """Its kind, and what it is about where that is more than a queue."""
        return f"{self.kind}:{self.subject}" if self.subject else str(self.kind)


class LetterAlert(NamedTuple):
    """Letters of one cause that are being counted: how many there are, and of how many surfaces were told."""

    fingerprint: str
    surfaces: str
    """Names as JSON."""
    sample: str
    """What one of the letters is about, as JSON."""
    opened_at: float
    number: int
    told: int


class OpenAlert(NamedTuple):
    """A condition that is not over. `clear_since` is set while its condition is gone and it may soon be over."""

    id: str
    kind: str
    queue: str
    subject: str
    message: str
    value: float
    threshold: float
    started_at: float
    clear_since: float | None = None
    ended_at: float | None = None
    told: int = 0

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return (self.kind, self.queue, self.subject)

    @property
    def condition(self) -> Condition:
        """What is, or was, wrong."""
        told = (self.message, self.queue, self.subject, self.value, self.threshold)
        return Condition(AlertKind(self.kind), *told)
