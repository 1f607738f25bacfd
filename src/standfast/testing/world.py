"""Where effects show: append-only lines that the product does not write, each synced before its effect is done."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from standfast.testing.kill_steps import Steps
from standfast.testing.nursery import report, reported
from standfast.wings.effects.handler_job import Job

Effect = tuple[str, str]
"""An effect's name, and whose it is."""


class World:
    """What a scenario's handlers have their effects on, in place of the real one."""

    def __init__(self, effects: Path, receiver: str, steps: Steps) -> None:
        self._effects = effects
        self._receiver = receiver
        self._steps = steps

    def happened(self, name: str, whose: Job | str) -> str:
        """Write down that an effect happened now, once more for each call; give its key, as a receipt.

        `whose` is the job that had it, which goes by its idempotency key or else its id; or any text.
        """
        key = whose.idempotency_key if isinstance(whose, Job) else str(whose)
        self._steps(f"before effect {name}", key)
        report(self._effects, synced=True, name=name, key=key)
        self._steps(f"after effect {name}", key)
        return key

    def has(self, name: str, whose: Job | str) -> bool:
        """Look whether an effect happened: what a verifier asks."""
        key = whose.idempotency_key if isinstance(whose, Job) else str(whose)
        return happened(self._effects)[name, key] > 0

    def step(self, what: str) -> None:
        """Have one more place where the run is killed, once for each time it comes by."""
        self._steps(what)

    def url(self, name: str) -> str:
        """Give a URL whose receiver writes each request down as this effect before it answers 200.

        The effect is its sender's by the header Idempotency-Key. The address is 127.0.0.1: name it in `destinations`.
        """
        return f"{self._receiver}/{name}"


def happened(path: Path) -> Counter[Effect]:
    """Count what happened so far."""
    lines: list[dict[str, Any]] = reported(path)
    return Counter((line["name"], line["key"]) for line in lines)
