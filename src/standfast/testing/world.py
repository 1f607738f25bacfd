"""Where effects are recorded: append-only lines, not written by the product, each synced before its effect is done."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from standfast.testing.kill_steps import Steps
from standfast.testing.nursery import report, reported
from standfast.wings.effects.handler_job import Job

Effect = tuple[str, str]
"""An effect's name, and the key of its owner."""


class World:
    """What a scenario's handlers act on, in place of the real world."""

    def __init__(self, effects: Path, receiver: str, steps: Steps) -> None:
        self._effects = effects
        self._receiver = receiver
        self._steps = steps

    def happened(self, name: str, whose: Job | str) -> str:
        """Record that an effect happened now, once more for each call; return its key, as a receipt.

        `whose` is the job that had it, known by its idempotency key or else its id; or any text.
        """
        key = whose.idempotency_key if isinstance(whose, Job) else str(whose)
        self._steps(f"before effect {name}", key)
        report(self._effects, synced=True, name=name, key=key)
        self._steps(f"after effect {name}", key)
        return key

    def has(self, name: str, whose: Job | str) -> bool:
        """Return whether an effect happened: the question of a verifier."""
        key = whose.idempotency_key if isinstance(whose, Job) else str(whose)
        return happened(self._effects)[name, key] > 0

    def step(self, what: str) -> None:
        """Add a place where the run is killed, once for each time that it is reached."""
        self._steps(what)

    def url(self, name: str) -> str:
        """Return a URL whose receiver records each request as this effect before it answers 200.

        The header Idempotency-Key says whose effect it is. The address is 127.0.0.1: name it in `destinations`.
        """
        return f"{self._receiver}/{name}"


def happened(path: Path) -> Counter[Effect]:
    """Count what happened so far."""
    lines: list[dict[str, Any]] = reported(path)
    return Counter((line["name"], line["key"]) for line in lines)
