"""The answers of routes about redrives."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from standfast.wings.redrives.words import Phase


class RedrivePlan(TypedDict):
    """What a redrive of these letters would do; `token` starts exactly this plan."""

    token: str
    letters: int
    would_run: int
    already_landed: int
    need_approval: int
    denied: int
    unchecked: int
    moved_on: int
    quarantined: int
    need_consent: int
    for_agent: NotRequired[bool]


class RedriveProgress(TypedDict):
    """The state of a redrive, why, and what became of its letters."""

    id: str
    state: Phase
    why: str | None
    by: str | None
    reason: str | None
    approval: str | None
    letters: int
    waiting: int
    running: int
    completed: int
    failed: int
    resolved: int
    denied: int
    approval_required: int
    drifted: int
    rate: float | None
    canary: int
    halt_on: float | None
    started_at: datetime | None
    ended_at: datetime | None


class RedriveWithFailures(RedriveProgress):
    """The state of a redrive, with the letters that failed again."""

    failures: list[dict[str, Any]]


class RedriveList(TypedDict):
    """Redrives, the newest first."""

    items: list[RedriveProgress]
