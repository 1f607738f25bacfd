"""The job in its four shapes: as it is handed in, as a worker holds it, as a person sees it, as a receipt."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec

from standfast.failure import Failure, Landed
from standfast.lifecycle import State, Triage
from standfast.rules import ReplayMode

Risk = Literal["low", "medium", "high", "critical"]
HTTP = "http"
"""The name of the handler that every queue has: its jobs are requests to be sent."""
IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})
"""The methods that do the same however often they are sent."""
QueueReason = Literal["event", "retry", "deferred_submit", "scheduled_job", "workflow_step"]


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What comes with a job and no statement decides by."""

    requester: str | None = None
    session: str | None = None
    risk: Risk | None = None
    labels: dict[str, str] | None = None
    queue_reason: QueueReason = "event"
    collected: bool = False
    """Whether the payload is a list of payloads, one for each job that was folded into this one, itself first."""


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job on its way in. Its id is minted by the caller, so that handing it in twice stores it once.

    `payload` and `details` are JSON text; `at` and `expires` are wall time.
    """

    id: str
    queue: str
    handler: str
    payload: str
    details: str = "{}"
    priority: int | None = None
    delay: float = 0.0
    at: float | None = None
    expires: float | None = None
    budget: int | None = None
    lease: float | None = None
    idempotency_key: str | None = None
    fingerprint: str | None = None
    thread_key: str | None = None


class Folded(TypedDict):
    """What a newcomer replaced when it was folded into a waiting job: its hash, key and trigger."""

    at: datetime
    by: str
    sha256: str
    key: NotRequired[str]
    trigger: NotRequired[str]


class Coalesced(TypedDict):
    """What was folded into a job: how many, and the last of them."""

    count: int
    last: list[Folded]


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One effect in a job's ledger: begun, or done with its receipt (JSON text). Field order is the statement's."""

    name: str
    state: Literal["begun", "done"]
    receipt: str | None = None
    verdict: str | None = None
    late: int = 0
    """Whether its receipt came from a worker that had lost the job."""


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job as its worker holds it: the right to run it now, under this token. Field order is the statement's."""

    n: int
    token: int
    id: str
    queue: str
    handler: str
    worker: str
    payload: str
    attempts: int
    max_attempts: int
    round_start: int
    lease: float
    timeout: float | None
    replay_mode: ReplayMode
    claimed_at: float
    entered_at: float
    expires_at: float | None
    idempotency_key: str | None
    details: Details
    gate: str | None = None
    coalesced: Coalesced | None = None
    landed: Landed | None = None
    """Whether an earlier attempt may have left its effect."""
    occupies: list[str] | None = None
    """The gates it takes a place of: limits, and the breaker it is the probe of."""
    ledger: list[Entry] | None = None
    """What earlier attempts did to the world."""

    @property
    def repeat(self) -> int:
        """Number the repeat that would follow this attempt in its round, from 1."""
        return self.attempts - self.round_start

    @property
    def exhausted(self) -> bool:
        """Whether this was the round's last attempt."""
        return self.attempts >= self.max_attempts

    @property
    def repeatable(self) -> bool:
        """Whether it may run again by itself after `landed: maybe`: its handler's mode decides, but for a request.

        A request may if its method does the same however often, or if the caller's key lets the receiver tell.
        """
        return self.handler != HTTP or self.idempotency_key is not None or _method(self.payload) in IDEMPOTENT


class _Method(msgspec.Struct):
    method: str = ""


_read_method = msgspec.json.Decoder(_Method).decode


def _method(payload: str) -> str:
    try:
        return _read_method(payload).method
    except msgspec.DecodeError:  # no request at all
        return ""


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
    by: str | None = None
    reason: str | None = None
    """Who asked for a replay, and why."""


class Receipt(NamedTuple):
    """What `enqueue` answers: on disk when you read this."""

    id: str | None
    outcome: Literal["accepted", "duplicate", "coalesced", "spooled", "fallback", "deferred"]
    state: str | None
    """Where the job is, a `State`; None while it is not in the store yet, or not any more."""


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
