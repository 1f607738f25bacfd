"""What should happen to a letter, by the built-in policy: nothing by itself, poison set apart."""

from __future__ import annotations

from standfast.failure import Action, Failure, reason
from standfast.lifecycle import Triage

BUILT_IN = "built-in"
"""The rule a letter names when no policy file decided."""


def triage(failure: Failure) -> Triage:
    """Decide by the catalogue: quarantine for poison, a person's review for the rest."""
    action = reason(failure.reason_code).action
    status = "quarantined" if action is Action.QUARANTINE else "pending_review"
    return Triage(action=action, rule=BUILT_IN, replay_status=status)
