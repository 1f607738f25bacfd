"""What happens to a job that is cancelled."""

from __future__ import annotations

import msgspec

from standfast.lifecycle import FINAL, JobRef, Move, PossibleDuplicate, State, Transition, asked_by
from standfast.wings.approvals.words import Filing
from standfast.wings.policy.triage import Judgement
from standfast.wings.replays.rules import Refusal


def cancel(job: JobRef, *, by: str | None = None) -> Transition | Refusal:
    """End a job that is no longer wanted. A running one can only be asked to stop."""
    if job.state in FINAL:
        return Refusal(f"it is already {job.state}")
    if job.state == State.RUNNING:
        return Refusal("it is running and was asked to stop; it ends cancelled unless this attempt succeeds")
    return job.moved(Move.CANCEL, *asked_by(by))


def unwanted(decided: Transition) -> Transition:
    """End a job as cancelled if it was cancelled while it ran, unless its attempt succeeded.

    What is known about its effect is kept, but nothing is repeated.
    """
    if decided.target in FINAL:
        return decided
    return msgspec.structs.replace(
        decided.without(Filing, Judgement, PossibleDuplicate), move=Move.CANCEL, warning="cancelled while it ran"
    )
