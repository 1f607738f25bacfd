"""Alerts: something is wrong, and surfaces are told when it begins, when there is more of it, and when it is over.

There are two kinds of alert. What follows is the same for both: the alert is kept in the store, routed to surfaces,
announced by jobs that are stored with the note of it (`announcer.tell`), and closed.

- `LetterAlert`: loud letters of one cause, found in the journal. It is announced once they have settled, and again
  with what came since, once a window; a window without another letter closes it.
- `OpenAlert`: a condition, found by a look. It is announced at its beginning and at its end, which is when the
  condition has been gone for a minute.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec


class AlertKind(StrEnum):
    """What may be wrong. Routes, metrics and rules use the same names."""

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
    OUTBOX = "outbox_not_relayed"
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
    AlertKind.OUTBOX: "Start a worker of the application that declares this outbox: standfast worker app:sf",
    AlertKind.LOW_DISK: "Free some space: new work is refused, and soon nothing more is started",
}
"""What to do about each, in one line."""

Key = tuple[str, str, str]
"""What distinguishes alerts that are open: kind, queue, and what else they are about."""


class Condition(msgspec.Struct, frozen=True):
    """Something that is wrong just now. Without a queue it is about the whole store."""

    kind: AlertKind
    message: str
    queue: str = ""
    subject: str = ""
    """Which of several things of a queue, or of the store, it is about, such as the surface that fails."""
    value: float = 1.0
    threshold: float = 0.0

    @property
    def key(self) -> Key:
        """What distinguishes it from others."""
        return (self.kind, self.queue, self.subject)

    @property
    def name(self) -> str:
        """Its kind, and its subject if it has one."""
        return f"{self.kind}:{self.subject}" if self.subject else str(self.kind)


class LetterAlert(NamedTuple):
    """Letters of one cause that are being counted: how many there are, and how many of them were announced."""

    fingerprint: str
    surfaces: str
    """Names as JSON."""
    sample: str
    """A description of one of the letters, as JSON."""
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
        """What distinguishes it from others."""
        return (self.kind, self.queue, self.subject)

    @property
    def condition(self) -> Condition:
        """What is or was wrong."""
        told = (self.message, self.queue, self.subject, self.value, self.threshold)
        return Condition(AlertKind(self.kind), *told)
