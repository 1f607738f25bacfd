"""What happens to a job whose session has not consented."""

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
"""Why a job that waited for consent ended, if its own session no longer wants it."""


class AwaitsConsent(Carried, frozen=True):
    """Says that nothing failed: a person is asked first."""

    def next_step(self, _end: Transition) -> tuple[int, str]:
        """Say what it waits for. This is not an error: the handler was not entered."""
        return logging.WARNING, "nothing of it ran; it waits for consent, and goes on by itself once a person gives it"


def unconsented(claim: Claim, outcome: Unconsented, _rules: QueueRules, _roll: float) -> Transition:
    """Hold a job until its session consents, or let it die if consent was denied. Nothing was tried."""
    if outcome.denied:
        return die(claim, never("consent_denied", outcome.message), begun=False)
    asked = never(REQUIRED, outcome.message)
    return move(claim, Move.HOLD, spends=-1, begun=False, failure=asked).carrying(AwaitsConsent())


def release(job: JobRef, *, by: str, reason: str) -> Transition:
    """Release a held job that got the answer it waited for: nothing was tried since, so this is not a replay."""
    return job.moved(Move.RELEASE, *asked_by(by, reason))


def awaits_consent(job: JobView) -> bool:
    """Return whether a job is held until a person consents: a replay would only ask the same again."""
    return job.state == State.HELD and job.failure is not None and job.failure.reason_code == REQUIRED


def not_replayed(job: JobView) -> dict[str, str]:
    """Word the refusal to replay a job that waits for consent: it is asked for, and nothing was put back to work."""
    whose = f"session {job.session}" if job.session else "jobs without a session"
    return {
        "outcome": REQUIRED,
        "why": f"it waits until a person who may approve grants {job.queue}/{job.handler} to {whose}, and goes on by "
        "itself then",
    }
