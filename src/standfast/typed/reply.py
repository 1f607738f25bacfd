"""The Reply as a type: what `run`, `submit`, `hand_over` and `retry` give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")

Status = Literal["ok", "running", "queued", "failed", "timeout", "held", "cancelled"]


class ReplyProgress(TypedDict):
    """How far a running call says that it is."""

    fraction: float
    """The share that is done, from 0 to 1."""
    note: str | None
    """Its own words."""


class Reply(TypedDict, Generic[R]):
    """What became of a call so far, and what to do next. It is a plain dict."""

    operation_id: str
    """The job's id: ask by it with `status`, `wait`, `result` and `explain`."""
    status: Status
    """Only `ok` means done."""
    hint: str
    """The next right action, in one sentence."""
    result: NotRequired[R]
    """What the handler returned, once it is done. Asked of a handler of yours that says what it returns, it is of that
    type; asked by name, it is JSON."""
    error: NotRequired[str]
    """What went wrong, in words."""
    error_kind: NotRequired[str]
    """What kind of error it was, as the handler or its receiver named it."""
    reason_code: NotRequired[str]
    """Why it is where it is, as a word that programs can compare."""
    queued_for_retry: NotRequired[bool]
    """Whether it waits in the queue after an attempt failed."""
    queue_reason: NotRequired[str]
    """Why it is in the queue: `retry`, `deferred_submit` and so on."""
    retry_at: NotRequired[str]
    """When it is tried next."""
    warning: NotRequired[str]
    """What is odd about the result."""
    post_write_recovery: NotRequired[bool]
    """Whether its end was lost, and its effects were found."""
    effects_verified: NotRequired[list[str]]
    """Which effects were found."""
    registry_auto_recovered: NotRequired[bool]
    """Whether the handler was disabled here until just now."""
    refused: NotRequired[bool]
    """Whether a `retry` put nothing back to work; over MCP, also whether a `cancel` cancelled nothing."""
    approval: NotRequired[str]
    """The id of the approval that it waits for."""
    probe: NotRequired[str]
    """What the probe of a `retry` last said."""
    progress: NotRequired[ReplyProgress]
    """How far it is, while it runs and if it says so with `job.progress`."""
