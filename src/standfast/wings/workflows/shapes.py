"""The answers of routes about workflows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from standfast.lifecycle import State
from standfast.wings.workflows.words import Progress


class WorkflowSummary(TypedDict):
    """A workflow, and how many of its steps are completed, cancelled or stopped."""

    id: str
    name: str
    state: Progress
    total: int
    completed: int
    cancelled: int
    stopped: int
    created_at: datetime
    finished_at: datetime | None


class WorkflowStep(TypedDict):
    """One step: the job that does it, the steps it comes after, and why it is in its state."""

    state: State
    view: str
    job_id: str
    result: Any
    after: list[str]
    queue: str
    handler: str
    attempts: int
    reason: str | None
    result_truncated: NotRequired[bool]
    """True if the result is too large for this answer; `GET /jobs/{id}/result` has it."""


class ShownWorkflow(WorkflowSummary):
    """A workflow with its steps by name."""

    steps: dict[str, WorkflowStep]


class WorkflowPage(TypedDict):
    """Workflows, the newest first. `next_cursor` leads to the older ones; it is null on the last page."""

    items: list[WorkflowSummary]
    next_cursor: str | None
