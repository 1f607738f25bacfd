"""What a person may do to a job, by its state: replay, cancel, hurry. The same answers from every door."""

from __future__ import annotations

import msgspec

from standfast.lifecycle import FINAL, LETTERS, Move, Standing, State, Transition


class Refusal(msgspec.Struct, frozen=True):
    """Why it cannot be done now, and what to do instead."""

    why: str


def replay(job: Standing) -> Transition | Refusal:
    """Put a letter back to work: same job, id, key and payload, in a new round."""
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be replayed; this one is {job.state}")
    return _moved(job, Move.REPLAY)


def cancel(job: Standing) -> Transition | Refusal:
    """End a job that is not wanted any more. A running one can only be asked to stop."""
    if job.state in FINAL:
        return Refusal(f"it is already {job.state}")
    if job.state == State.RUNNING:
        return Refusal("it is running and was asked to stop; it ends cancelled unless this attempt succeeds")
    return _moved(job, Move.CANCEL)


def _moved(job: Standing, move: Move) -> Transition:
    return Transition(job.n, job.token, job.id, job.queue, move, job.state, gate=job.gate)
