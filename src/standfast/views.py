"""The job as a person or a program sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from standfast.failure import Action, Failure
from standfast.job import Coalesced
from standfast.lifecycle import State

REPLAY_STATUSES = (
    *("none", "scheduled", "pending_review", "approval_pending", "denied"),
    *("replayed", "resolved", "quarantined", "discarded"),
)
"""Where a letter can be in its triage."""


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says should happen to a letter."""

    action: Action
    rule: str
    owner: str | None = None
    approver_group: str | None = None
    approver_groups: tuple[str, ...] = ()
    """All groups its approver must be in, where an approval was asked for."""
    replay_status: str = "pending_review"
    replay_at: float | datetime | None = None
    """When it is replayed by itself: queue time where it is stored, a moment where it is shown."""
    approval: str | None = None
    """The approval it waits for, if it waits for one."""
    note: str | None = None
    """Why an earlier rule that fits did not decide, why no rule did, or why an automatic replay was taken back."""


LOST = frozenset({"worker_lost"})
"""The reasons of an attempt whose worker did not live to see its end."""
NO_WORKER = "none: the worker was lost, so no exception reached standfast"
NO_EXCEPTION = "none: the attempt raised no exception, or an older version of standfast recorded it"


class FailureView(Failure, frozen=True, kw_only=True):
    """A job's failure as it is shown: with where its attempt raised, which the store keeps apart."""

    traceback: str | None = None
    """Redacted and capped. None where the attempt raised nothing: it returned its error, or its worker was lost."""

    @classmethod
    def of(cls, failure: Failure, traceback: str | None) -> FailureView:
        """Give a failure with its traceback."""
        return cls(**msgspec.structs.asdict(failure), traceback=traceback)

    @property
    def plain(self) -> Failure:
        """The failure alone, as it is stored."""
        return Failure(**{name: getattr(self, name) for name in Failure.__struct_fields__})

    @property
    def without_traceback(self) -> str | None:
        """Why there is no traceback, for a person; None if there is one."""
        if self.traceback is not None:
            return None
        lost = self.reason_code in LOST or self.cause in LOST
        return NO_WORKER if lost else NO_EXCEPTION


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a job's history: an attempt that did not complete or was given back, or a replay."""

    attempt: int
    """Its number; in a line that tells of no attempt, how many were made before."""
    at: datetime
    begun: bool = True
    """Whether the handler was entered. It is not where consent is missing, or the job came too late."""
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
    left_out: int = 0
    """How many lines like this one came after it and are not kept: a job that is put back again and again keeps the
    first line and the last ones."""


class JobProgress(TypedDict):
    """How far the present attempt says it is, or the last one did: a share from 0 to 1, and its words."""

    fraction: float
    note: str | None
    at: datetime
    attempt: int


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
    progress: JobProgress | None
    result: Any
    warning: str | None
    failure: FailureView | None
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
