"""The answers of routes about schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict


class ShownSchedule(TypedDict):
    """A schedule: what it enqueues and when, its next runs, and its last one."""

    name: str
    when: str
    queue: str
    handler: str
    payload: Any
    cron: str | None
    every: float | None
    at: datetime | None
    tz: str
    missed: str
    jitter: float
    overlap: bool
    options: dict[str, Any]
    added_by: str | None
    paused: bool
    done: bool
    next_runs: list[datetime]
    last_tick: datetime | None
    last_job: str | None
    runs: int
    coalesced: int
    missed_runs: int


class ScheduleList(TypedDict):
    """Schedules, by name."""

    items: list[ShownSchedule]
