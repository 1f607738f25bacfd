"""What becomes of a job whose process could not be started: it is deferred, and its history says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from standfast.job import Claim
from standfast.lifecycle import Carried, Move, Transition
from standfast.outcome import NotStarted
from standfast.rules import QueueRules, exponential
from standfast.spine.backoff import delay
from standfast.spine.settle import move
from standfast.views import Attempt

NOT_STARTED = "process_not_started"
"""The reason code of such a deferral in the history."""
LONGEST_PAUSE = 60.0
PAUSES = exponential(base=1, cap=LONGEST_PAUSE)
"""The waits between one try and the next."""


class StartFailure(Carried, frozen=True):
    """Why the process of a job could not be started."""

    why: str

    @property
    def history_word(self) -> str:
        """Name the deferral for what it is."""
        return NOT_STARTED

    @property
    def history_marks(self) -> Mapping[str, Any]:
        """Say why."""
        return {"message": self.why}


def not_started(claim: Claim, outcome: NotStarted, _rules: QueueRules, roll: float) -> Transition:
    """Defer a job, the longer the more often in a row no process could be started. It spends no attempt."""
    why = StartFailure(outcome.why)
    wait = delay(PAUSES, outcome.times, roll)
    return move(claim, Move.GIVE_BACK, why, delay=wait, spends=-1, defers=1, begun=False)


def not_started_because(history: Sequence[Attempt]) -> str | None:
    """Return why a job was deferred last, if its process could not be started."""
    last = history[-1] if history else None
    return last.message or "" if last is not None and last.reason_code == NOT_STARTED else None
