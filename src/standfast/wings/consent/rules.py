"""What becomes of a job whose session has not consented."""

from __future__ import annotations

import logging

from standfast.job import Claim
from standfast.lifecycle import Carried, JobRef, Move, State, Transition, asked_by
from standfast.outcome import Unconsented
from standfast.rules import QueueRules
from standfast.spine.settle import die, move, never
from standfast.views import JobView

REQUIRED = "consent_required"
WITHDRAWN = "withdrawn by its own session"
"""Why a job ended that waited for consent, where who asked for it wants it no more."""


class AwaitsConsent(Carried, frozen=True):
    """Says that nothing failed: a person is asked first."""

    def next_step(self, _end: Transition) -> tuple[int, str]:
        """Say what it waits for. It is no error: the handler was not entered."""
        return logging.WARNING, "nothing of it ran; it waits for consent, and goes on by itself once a person gives it"


def unconsented(claim: Claim, outcome: Unconsented, _rules: QueueRules, _roll: float) -> Transition:
    """Keep a job until its session consents, or let it die if that said no. Nothing was tried."""
    if outcome.denied:
        return die(claim, never("consent_denied", outcome.message), begun=False)
    asked = never(REQUIRED, outcome.message)
    return move(claim, Move.HOLD, spends=-1, begun=False, failure=asked).carrying(AwaitsConsent())


def release(job: JobRef, *, by: str, reason: str) -> Transition:
    """Let a held job go on that got the answer it waited for: nothing was tried since, so this is no replay."""
    return job.moved(Move.RELEASE, *asked_by(by, reason))


def awaits_consent(job: JobView) -> bool:
    """Tell whether a job is held until a person consents: a replay would only ask the same again."""
    return job.state == State.HELD and job.failure is not None and job.failure.reason_code == REQUIRED


def not_replayed(job: JobView) -> dict[str, str]:
    """Word the replay of a job that waits for consent: it is asked for, and nothing was put back to work."""
    whose = f"session {job.session}" if job.session else "jobs without a session"
    return {
        "outcome": REQUIRED,
        "why": f"it waits until a person who may approve grants {job.queue}/{job.handler} to {whose}, and goes on by "
        "itself then",
    }
