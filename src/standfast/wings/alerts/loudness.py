"""Is a letter worth waking somebody? Its queue may say; else its reason does."""

from __future__ import annotations

from standfast.failure import Class, Failure, reason
from standfast.lifecycle import LETTERS, State
from standfast.rules import OURS, QueueRules


def loud(queue: str, rules: QueueRules, state: State, failure: Failure | None, *, replays_by_itself: bool) -> bool:
    """Tell whether a letter is loud: it needs somebody, nothing more happens by itself, and it is not one of ours."""
    if queue.startswith(OURS) or state not in LETTERS or replays_by_itself:
        return False
    if rules.notify is not None:
        return rules.notify == "loud"
    return failure is None or reason(failure.reason_code, Class(failure.cls)).loud
