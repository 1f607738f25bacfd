"""What callers ask of the store, and what they get."""

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
    """The queue has as many jobs due as it may have; nothing was written."""

    most: int


Accepted = Receipt | Conflict | Full
"""What is answered for a new job: it is stored, or why it is not."""


class QueueDemand(msgspec.Struct, frozen=True):
    """So many jobs of one queue, for these handlers. A queue with a gate gives none unless the gate was asked."""

    queue: str
    handlers: tuple[str, ...]
    slots: int
    admission: Any = None
    """What the queue's gate said: "open", or why it is closed (`limits.Closing`)."""
    ready: dict[str, str | None] | None = None
    """What the probes say of those handlers that require anything: why not, or None for a yes."""
    alone: bool = False
    """Whether it wants a suspect, which runs alone, instead of other jobs."""
    modes: Mapping[str, ReplayMode] | None = None
    """The replay modes of those handlers as the worker's own code has them: no other program makes them less strict."""


class ClaimRequest(msgspec.Struct, frozen=True):
    """What one worker can start now."""

    worker: str
    demands: tuple[QueueDemand, ...]
    policy: str | None = None
    """The mark of the policy it knows to be in force."""


class ClaimResult(msgspec.Struct, frozen=True):
    """What a claim brought, the rules it was made under, and when more comes due."""

    claims: list[Claim]
    rules: dict[str, QueueRules]
    next_due: float | None
    policy: Any = None
    """The policy in force, where it is another one than the worker knew."""
    suspects: tuple[str, ...] = ()
    """The queues that have suspects for this worker's handlers."""


class Publication(msgspec.Struct, frozen=True):
    """What a process declares: in code, and with the rules that its settings file names."""

    queues: dict[str, QueueRules]
    handlers: Sequence[msgspec.Struct]
    named: dict[str, dict[str, Any]] = {}
    file: str = ""
