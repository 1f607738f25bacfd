"""Tells Django when a task has failed for good: an attempt alone does not know whether another one follows."""

from __future__ import annotations

import asyncio
import time

from standfast.application import Standfast
from standfast.django.results import status_of, stored_result
from standfast.django.tasks_framework import TaskResultStatus, task_finished
from standfast.lifecycle import State
from standfast.views import JobView
from standfast.wings.effects.handler_job import Job

LOOK_EVERY = 0.02
PATIENCE = 30.0
"""Seconds after which the signal is not sent: the store has not accepted the end of the attempt."""


async def tell_if_finished(sf: Standfast, sender: type, job: Job) -> None:
    """Send `task_finished` if a failed attempt was the last one."""
    ended = await _ended(sf, job)
    if ended is not None and status_of(ended) == TaskResultStatus.FAILED:
        await task_finished.asend(sender, task_result=stored_result(ended))


async def _ended(sf: Standfast, job: Job) -> JobView | None:
    """Wait until the end of an attempt is stored; return the job then, unless a later attempt has begun.

    The hook of an attempt may run late: the last attempt has its own, and the end is reported once.
    """
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        found = await sf.status(job.id)
        if found is None or found.attempts > job.attempt:
            return None
        if found.state != State.RUNNING:
            return found
        await asyncio.sleep(LOOK_EVERY)
    return None
