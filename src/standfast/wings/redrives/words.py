"""Redrives as values: many letters put back to work as one decision, a few first, then the rest at a rate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from standfast.lifecycle import Carried

Phase = Literal["planned", "approval_pending", "running", "paused", "halted", "finished", "cancelled"]
"""The state of a redrive."""
GOING_ON: tuple[Phase, ...] = ("approval_pending", "running", "paused", "halted")
"""The states of a redrive that was started and has not ended."""


WINDOW = 20
"""The number of last settled letters over which the failing share is judged, once the canary is over."""


class Fate(StrEnum):
    """What a plan predicts for a letter."""

    RUN = "run"
    LANDED = "landed"
    APPROVAL = "approval"
    DENIED = "denied"


class Outcome(StrEnum):
    """What became of a letter of a redrive."""

    COMPLETED = "completed"
    FAILED = "failed"
    """The letter stopped again."""
    RESOLVED = "resolved"
    """Its effects were found to exist, and it was not run again."""
    DENIED = "denied"
    APPROVAL_REQUIRED = "approval_required"
    """The policy requires an approval that was not given for this plan."""
    DRIFTED = "drifted"
    """Another decision changed the letter meanwhile."""


class RedriveMember(Carried, frozen=True):
    """One letter's place in a redrive."""

    redrive: str
    place: int
    episode: int | None = None
    """In which episode it was replayed; None if that is recorded already."""
    driver: str | None = None
    """The worker that decided it; it applies only while no other worker drives the redrive."""


class RedriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a redrive: letters per second, how many are tried first, and the failing share that halts it."""

    rate: float | None = None
    canary: int = 0
    halt_on: float | None = None


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a redrive since it was started, or resumed after a halt."""

    waiting: int
    """Letters of the whole plan that are not replayed yet."""
    running: int = 0
    """Replayed, but not settled yet."""
    from_before: int = 0
    """The same, but replayed before the last halt: how they end no longer counts for halting."""
    completed: int = 0
    failed: int = 0
    recent: tuple[bool, ...] = ()
    """For each of the last settled letters, whether it failed."""

    @property
    def settled(self) -> int:
        """Replayed and ended."""
        return self.completed + self.failed

    @property
    def replayed(self) -> int:
        """All letters put back to work."""
        return self.running + self.settled
