"""What callers ask of the store, and what they get."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from standfast.job import Claim
from standfast.rules import QueueRules


class Conflict(msgspec.Struct, frozen=True):
    """The key belongs to a job with another payload."""

    job_id: str


class Full(msgspec.Struct, frozen=True):
    """The queue has as many jobs due as it may have; nothing was written."""

    most: int


class Want(msgspec.Struct, frozen=True):
    """So many jobs of one queue, for these handlers."""

    queue: str
    handlers: tuple[str, ...]
    slots: int


class Order(msgspec.Struct, frozen=True):
    """What one worker can start now."""

    worker: str
    wants: tuple[Want, ...]


class Catch(msgspec.Struct, frozen=True):
    """What a claim brought, the rules it was made under, and when more comes due."""

    claims: list[Claim]
    rules: dict[str, QueueRules]
    next_due: float | None


class Publication(msgspec.Struct, frozen=True):
    """What a process declares."""

    queues: dict[str, QueueRules]
    handlers: Sequence[msgspec.Struct]
