"""What a call returns."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class ReplyProgress(TypedDict):
    """The progress a running call reports: the share that is done, from 0 to 1, and its own words."""

    fraction: float
    note: str | None


class Reply(TypedDict):
    """Where a call stands, and in `hint` the next right action. Only `ok` means done."""

    operation_id: str
    status: Literal["ok", "running", "queued", "failed", "timeout", "held", "cancelled"]
    hint: str
    result: NotRequired[Any]
    error: NotRequired[str]
    error_kind: NotRequired[str]
    reason_code: NotRequired[str]
    queued_for_retry: NotRequired[bool]
    queue_reason: NotRequired[str]
    retry_at: NotRequired[str]
    post_write_recovery: NotRequired[bool]
    effects_verified: NotRequired[list[str]]
    registry_auto_recovered: NotRequired[bool]
    warning: NotRequired[str]
    approval: NotRequired[str]
    """The approval that a person must give first."""
    probe: NotRequired[str]
    """The last answer of the probe, if a retry waited for it in vain."""
    refused: NotRequired[bool]
    """True if nothing was retried: the job runs, has ended, or waits for a person."""
    progress: NotRequired[ReplyProgress]
