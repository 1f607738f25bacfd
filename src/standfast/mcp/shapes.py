"""What the tools answer, as clients are told beforehand."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class Reply(TypedDict):
    """What became of a call. `hint` says the next right action; `queued` is not done."""

    operation_id: str
    status: Literal["ok", "running", "queued", "failed", "timeout", "held", "cancelled"]
    hint: str
    result: NotRequired[Any]
    error: NotRequired[str]
    error_kind: NotRequired[str]
    reason_code: NotRequired[str]
    queued_for_retry: NotRequired[bool]
    queue_reason: NotRequired[str]
    retry_at: NotRequired[str | None]
    post_write_recovery: NotRequired[bool]
    warning: NotRequired[str]
    effects_verified: NotRequired[list[str]]
    registry_auto_recovered: NotRequired[bool]
    approval: NotRequired[str]
    probe: NotRequired[str]


class Looked(TypedDict):
    """A job as it stands."""

    job: dict[str, Any]
    hint: str


class Explained(TypedDict):
    """One sentence about a job, with its evidence."""

    id: str
    explanation: str


class Messages(TypedDict):
    """What waits in this session's inbox."""

    messages: list[dict[str, Any]]
    hint: str


class Acknowledged(TypedDict):
    """A message that is done with."""

    id: str
    acknowledged: bool


class Health(TypedDict):
    """How the queue is, and what is wrong."""

    status: str
    issues: list[str]
    total_pending: int
    total_dead_letter: int


class Letters(TypedDict):
    """A page of dead letters, the newest first."""

    items: list[dict[str, Any]]
    next_cursor: int | None
    hint: str


class Proposed(TypedDict):
    """What became of a proposal to replay a letter."""

    id: str
    outcome: Literal["replayed", "resolved", "denied", "approval_required"]
    hint: str
    approval: NotRequired[str]
    rule: NotRequired[str]
    why: NotRequired[str | None]
