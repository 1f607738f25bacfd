"""Redrives as values: many letters put back to work as one decision, a few first, then the rest at a rate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from standfast.lifecycle import Carried

Phase = Literal["planned", "approval_pending", "running", "paused", "halted", "finished", "cancelled"]
"""How far a redrive has come."""
GOING_ON: tuple[Phase, ...] = ("approval_pending", "running", "paused", "halted")
"""A redrive that was started and has not come to its end."""


WINDOW = 20
"""Over how many of the last settled letters the failing share is judged, once the canary is over."""


class Fate(StrEnum):
    """What a plan foresees for a letter."""

    RUN = "run"
    LANDED = "landed"
    APPROVAL = "approval"
    DENIED = "denied"


class Outcome(StrEnum):
    """What became of a letter of a redrive."""

    COMPLETED = "completed"
    FAILED = "failed"
    """It stopped again."""
    RESOLVED = "resolved"
    """It had landed, and was not run again."""
    DENIED = "denied"
    APPROVAL_REQUIRED = "approval_required"
    """The policy wants an approval that was not given for this plan."""
    DRIFTED = "drifted"
    """It was changed by another decision meanwhile."""


class RedriveMember(Carried, frozen=True):
    """One letter's place in a redrive."""

    redrive: str
    place: int
    episode: int | None = None
    """In which episode it was replayed; None where that is known already."""
    driver: str | None = None
    """The worker that decided it; no other may drive the redrive by then."""


class RedriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a redrive goes: letters per second, how many are tried first, and the failing share that stops it."""

    rate: float | None = None
    canary: int = 0
    halt_on: float | None = None


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come since it was started, or went on after a halt."""

    waiting: int
    """Letters that are not replayed yet, of the whole plan."""
    running: int = 0
    """Replayed, and not settled yet."""
    from_before: int = 0
    """The same, but replayed before the last halt: what becomes of them judges nothing any more."""
    completed: int = 0
    failed: int = 0
    recent: tuple[bool, ...] = ()
    """The last that settled: whether each failed."""

    @property
    def settled(self) -> int:
        """Replayed, and over."""
        return self.completed + self.failed

    @property
    def replayed(self) -> int:
        """All that were put back to work."""
        return self.running + self.settled
