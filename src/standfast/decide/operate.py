"""What a person may do to a job, by its state: replay, cancel, hurry. The same answers from every door."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.failure import Landed
from standfast.lifecycle import FINAL, LETTERS, Move, Standing, State, Transition
from standfast.printable import printable


class Refusal(msgspec.Struct, frozen=True):
    """Why it cannot be done now, and what to do instead."""

    why: str


def replay(
    job: Standing, *, attempt: int = 0, landed: Landed | None = None, by: str | None = None, reason: str | None = None
) -> Transition | Refusal:
    """Put a letter back to work: same job, id, key and payload, in a new round.

    `attempt` was its last one. If any of them may have landed, this is written down as a possible duplicate first.
    """
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be replayed; this one is {job.state}")
    asked = {"by": by and printable(by), "reason": reason and printable(reason)}
    return _moved(job, Move.REPLAY, attempt=attempt, possible_duplicate=landed == Landed.MAYBE, **asked)


def cancel(job: Standing) -> Transition | Refusal:
    """End a job that is not wanted any more. A running one can only be asked to stop."""
    if job.state in FINAL:
        return Refusal(f"it is already {job.state}")
    if job.state == State.RUNNING:
        return Refusal("it is running and was asked to stop; it ends cancelled unless this attempt succeeds")
    return _moved(job, Move.CANCEL)


def _moved(job: Standing, move: Move, **what: Any) -> Transition:
    return Transition(job.n, job.token, job.id, job.queue, move, job.state, gate=job.gate, **what)
