"""What callers ask of the store, and what they get back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from standfast.job import Claim, Receipt
from standfast.rules import QueueRules, ReplayMode


class Conflict(msgspec.Struct, frozen=True):
    """The key belongs to a job with another payload."""

    job_id: str


class Full(msgspec.Struct, frozen=True):
    """The queue has as many jobs due as `max_depth` allows; nothing was written."""

    most: int


Accepted = Receipt | Conflict | Full
"""The answer for a new job: that it is stored, or why not."""


class QueueDemand(msgspec.Struct, frozen=True):
    """How many jobs of one queue are wanted, for which handlers. A queue whose gate was not asked gives none."""

    queue: str
    handlers: tuple[str, ...]
    slots: int
    admission: Any = None
    """What the queue's gate said: "open", or why it is closed (`limits.Closing`)."""
    ready: dict[str, str | None] | None = None
    """For each handler that requires probes, why they say no, or None if they say yes."""
    alone: bool = False
    """Whether a suspect is wanted, which runs alone, instead of other jobs."""
    modes: Mapping[str, ReplayMode] | None = None
    """The replay modes of those handlers in the worker's own code: no other program can make them less strict."""


class ClaimRequest(msgspec.Struct, frozen=True):
    """What one worker can start now."""

    worker: str
    demands: tuple[QueueDemand, ...]
    policy: str | None = None
    """The mark of the policy that the worker knows."""


class ClaimResult(msgspec.Struct, frozen=True):
    """The claimed jobs, the rules they were claimed under, and the seconds until more come due."""

    claims: list[Claim]
    rules: dict[str, QueueRules]
    next_due: float | None
    policy: Any = None
    """The policy in force, if the worker knew a different one."""
    suspects: tuple[str, ...] = ()
    """The queues whose suspects could start now; if suspects were asked for, those where something holds them back."""


class Publication(msgspec.Struct, frozen=True):
    """What a process declares in code, and the rules that its settings file names."""

    queues: dict[str, QueueRules]
    handlers: Sequence[msgspec.Struct]
    named: dict[str, dict[str, Any]] = {}
    file: str = ""
