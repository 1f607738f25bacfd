"""What a Transition carries, as tests ask for it."""

from __future__ import annotations

from standfast.lifecycle import AskedBy, PossibleDuplicate, Suspicion, Transition
from standfast.views import Triage
from standfast.wings.policy.triage import Judgement


def triage_of(decided: Transition) -> Triage | None:
    """Give what the policy said."""
    judgement = decided.rider(Judgement)
    return None if judgement is None else judgement.triage


def is_duplicate(decided: Transition) -> bool:
    """Tell whether a repeat may do again what is done."""
    return decided.rider(PossibleDuplicate) is not None


def is_suspect(decided: Transition) -> bool | None:
    """Tell whether the job runs alone from now on; None if that stays as it is."""
    suspicion = decided.rider(Suspicion)
    return None if suspicion is None else suspicion.suspect


def is_in_place(decided: Transition) -> bool:
    """Tell whether the job goes back to its old place in the line."""
    suspicion = decided.rider(Suspicion)
    return suspicion is not None and suspicion.in_place


def reason_of(decided: Transition) -> str | None:
    """Give why a move was asked for."""
    asked = decided.rider(AskedBy)
    return None if asked is None else asked.reason
