"""Workflows as values: steps that wait for each other, and how far the whole of them has come."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from standfast.lifecycle import NoticeKind


class Progress(StrEnum):
    """How far a workflow has come. Only `completed` and `cancelled` are final."""

    RUNNING = "running"
    STUCK = "stuck"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


ENDED = frozenset({Progress.COMPLETED, Progress.CANCELLED})
TOLD = {
    Progress.RUNNING: NoticeKind.WORKFLOW_RESUMED,
    Progress.STUCK: NoticeKind.WORKFLOW_STUCK,
    Progress.COMPLETED: NoticeKind.WORKFLOW_COMPLETED,
    Progress.CANCELLED: NoticeKind.WORKFLOW_CANCELLED,
}
"""The notice for each progress."""


class Tally(NamedTuple):
    """How many steps of a workflow are not final, are dead or held, and were cancelled; or a change of these counts."""

    unfinished: int = 0
    stopped: int = 0
    dropped: int = 0

    def plus(self, other: Tally) -> Tally:
        """Add another tally."""
        return Tally(*(one + more for one, more in zip(self, other, strict=True)))

    def times(self, number: int) -> Tally:
        """Multiply the numbers."""
        return Tally(*(one * number for one in self))

    @property
    def progress(self) -> Progress:
        """How far the workflow has come: it is completed only if every step is."""
        if self.unfinished == 0:
            return Progress.CANCELLED if self.dropped else Progress.COMPLETED
        return Progress.STUCK if self.stopped else Progress.RUNNING
