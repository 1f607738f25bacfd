"""The job as a person or a program sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from standfast.failure import Failure
from standfast.job import Coalesced
from standfast.lifecycle import State, Triage


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a job's history: an attempt that did not complete or was given back, or a replay."""

    attempt: int
    at: datetime
    cls: str | None = msgspec.field(name="class", default=None)
    landed: str | None = None
    reason_code: str | None = None
    error_kind: str | None = None
    message: str | None = None
    delay: float | None = None
    worker: str | None = None
    possible_duplicate: bool = False
    refused: bool = False
    """Whether its receiver refused it for now and said when to come back: no attempt was spent."""
    by: str | None = None
    reason: str | None = None
    """Who asked for a replay, and why."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a person or a program sees it. Times are UTC."""

    id: str
    queue: str
    handler: str
    state: State
    view: str
    queue_reason: str
    reason: str | None
    priority: int
    payload: Any
    payload_sha256: str
    attempts: int
    max_attempts: int
    deferrals: int
    generation: int
    created_at: datetime
    first_seen_at: datetime
    last_entered_at: datetime
    due_at: datetime
    ready_at: datetime | None
    claimed_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    idempotency_key: str | None
    thread_key: str | None
    coalesced: Coalesced | None
    superseded_by: str | None
    parked_on: str | None
    session: str | None
    requester: str | None
    requesters: list[str]
    labels: dict[str, str]
    risk: str | None
    progress: dict[str, Any] | None
    result: Any
    warning: str | None
    failure: Failure | None
    first_failure: Failure | None
    history: list[Attempt]
    effects: list[dict[str, Any]]
    triage: Triage | None
    fingerprint: str | None
    replays: int
    policy_snapshot: str | None
    workflow: str | None
    expires_at: datetime | None

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen by itself."""
        if self.state == State.DEAD:
            return self.triage is None or self.triage.replay_status != "scheduled"
        return self.state in {State.COMPLETED, State.CANCELLED, State.HELD}


class Progress(NamedTuple):
    """How far something with many jobs is: what is done to them, and to how many of how many, if that is known."""

    what: str
    done: int
    total: int | None


Heard = Callable[[Progress], None]
"""Hears how far it is."""
