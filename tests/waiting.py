"""Wait for facts: ask again until it is so, and fail at a deadline. A test that sleeps for luck tests the luck."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from standfast import JobView, Standfast
from standfast.views import FailureView

DEADLINE = 45.0
"""Far more than anything here takes, for machines that are busy."""
LOOK_EVERY = 0.005


async def seen(fact: Callable[[], Any], *, within: float = DEADLINE) -> Any:
    """Wait until the fact, asked for or awaited, is true, and give its value."""
    deadline = time.monotonic() + within
    while True:
        asked = fact()
        value = await asked if inspect.isawaitable(asked) else asked
        if value:
            return value
        assert time.monotonic() < deadline, f"not seen within {within} s; the last answer was {value!r}"
        await asyncio.sleep(LOOK_EVERY)


async def job_of(sf: Standfast, job_id: str | None) -> JobView:
    """Look at a job that must be there."""
    assert job_id is not None
    found = await sf.status(job_id)
    assert found is not None
    return found


async def reached(sf: Standfast, job_id: str | None, view: str, *, within: float = DEADLINE) -> JobView:
    """Wait until a job is seen in this state or view."""

    async def there() -> JobView | None:
        job = await job_of(sf, job_id)
        return job if view in {job.state, job.view} else None

    found: JobView = await seen(there, within=within)
    return found


async def ended(sf: Standfast, job_id: str | None, *, within: float = DEADLINE) -> JobView:
    """Wait until a job is settled."""
    assert job_id is not None
    return await sf.wait(job_id, within)


def failure_of(job: JobView) -> FailureView:
    """Give the failure a job must have."""
    assert job.failure is not None
    return job.failure


def effects_of(job: JobView) -> list[dict[str, Any]]:
    """Give a job's effects without when, and by which attempt, each was last looked at."""
    return [{name: value for name, value in each.items() if name not in {"at", "attempt"}} for each in job.effects]


def stamp(at: datetime | None) -> float:
    """Give a moment that must be known, in seconds."""
    assert at is not None
    return at.timestamp()
