"""What becomes of a job whose session has not consented."""

from __future__ import annotations

from standfast.job import Claim
from standfast.lifecycle import JobRef, Move, Transition
from standfast.outcome import Unconsented
from standfast.printable import printable
from standfast.rules import QueueRules
from standfast.spine.settle import die, move, never


def unconsented(claim: Claim, outcome: Unconsented, _rules: QueueRules, _roll: float) -> Transition:
    """Keep a job until its session consents, or let it die if that said no. Nothing was tried."""
    if outcome.denied:
        return die(claim, never("consent_denied", outcome.message), spends=-1)
    return move(claim, Move.HOLD, spends=-1, failure=never("consent_required", outcome.message))


def release(job: JobRef, *, by: str, reason: str) -> Transition:
    """Let a held job go on that got the answer it waited for: nothing was tried since, so this is no replay."""
    return job.moved(Move.RELEASE, by=printable(by), reason=printable(reason))
