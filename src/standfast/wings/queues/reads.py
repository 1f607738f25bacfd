"""Scripts that read what is in force for a queue."""

from __future__ import annotations

from standfast.rules import QueueRules
from standfast.spine.known_rules import rules_in_force
from standfast.store.steps import Script


def rules(queue: str) -> Script[QueueRules]:
    """Read the rules in force for a queue."""
    return (yield from rules_in_force([queue]))[queue]
