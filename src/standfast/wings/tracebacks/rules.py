"""Which moves carry a traceback: those of attempts that raised and failed."""

from __future__ import annotations

from standfast.failure.traceback_text import is_only_ours, traceback_of
from standfast.lifecycle import Transition
from standfast.wings.tracebacks.words import Traceback


def with_traceback(end: Transition, error: BaseException | None) -> Transition:
    """Attach to a failed attempt where it raised."""
    if error is None or end.attempt_failure is None or is_only_ours(error):
        return end
    return end.carrying(Traceback(traceback_of(error)))
