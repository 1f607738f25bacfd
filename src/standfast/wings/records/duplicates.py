"""Says whether a job may have had its effect twice: its history marks the attempts."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.lifecycle import State
from standfast.views import Attempt, JobView

REPEATED = frozenset({State.RUNNING, State.COMPLETED})
"""States in which the repeat has begun, so that there may be two effects."""


def uncertain_attempts(history: Sequence[Attempt]) -> tuple[int, ...]:
    """Return the attempts that were repeated, or will be, although each may have had its effect."""
    return tuple(sorted({line.attempt for line in history if line.possible_duplicate}))


def duplicate_note(job: JobView) -> str | None:
    """Return the note for a list of jobs; None if no attempt is uncertain."""
    found = uncertain_attempts(job.history)
    return f"possible duplicate of {_named(found)}" if found else None


def duplicate_sentence(history: Sequence[Attempt], state: State) -> str | None:
    """Return the sentence about one job; None if no attempt is uncertain."""
    found = uncertain_attempts(history)
    if not found:
        return None
    too = " too" if state in REPEATED else ""
    return f"An earlier attempt may have had its effect{too}: see {_named(found)} in the history."


def _named(attempts: Sequence[int]) -> str:
    *others, last = map(str, attempts)
    return f"attempts {', '.join(others)} and {last}" if others else f"attempt {last}"
