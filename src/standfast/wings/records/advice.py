"""The advice that a job's failure carries, which depends on where the job is now."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from standfast.failure import Failure, Landed
from standfast.failure.letter_advice import (
    APPROVAL,
    QUARANTINED,
    REPLAYED_AGAIN,
    RUNS_AGAIN,
    TRIED_AGAIN,
    as_letter,
    in_quarantine,
)
from standfast.lifecycle import LETTERS, State
from standfast.views import Attempt, Triage

LOOK_FAILED = "look_failed"


def may_have_landed(failure: Failure | None, history: Sequence[Attempt]) -> bool:
    """Return whether any attempt may have landed: "not done" is said only if it is certain."""
    maybe = failure is not None and failure.landed == Landed.MAYBE
    return maybe or any(line.landed == Landed.MAYBE for line in history)


def advised(failure: Failure, state: State, triage: Triage | None, history: Sequence[Attempt]) -> Failure:
    """Return a failure with the advice that holds where its job is now."""
    if state not in LETTERS:
        if failure.reason_code == LOOK_FAILED and state != State.RUNNING:
            return failure
        return replace(failure, advice=RUNS_AGAIN if state == State.RUNNING else TRIED_AGAIN)
    status = None if triage is None else triage.replay_status
    if status == "scheduled":
        return replace(failure, advice=REPLAYED_AGAIN)
    if state == State.HELD and status == "approval_pending":
        return replace(failure, advice=APPROVAL)
    letter = as_letter(failure, maybe=may_have_landed(failure, history))
    if triage is not None and status == QUARANTINED:
        return replace(letter, advice=f"{in_quarantine(triage.owner)} {letter.advice}".rstrip())
    return letter
