"""The async verbs of Standfast as plain calls: all that the shim needs, and its only ones."""

from __future__ import annotations

import time
from typing import Any

from standfast.application import Standfast
from standfast.celery.exceptions import TimeoutError  # noqa: A004 - Celery's name
from standfast.concurrency.flows import run_sync
from standfast.job import Receipt
from standfast.views import JobView
from standfast.wings.workflows.verbs import Workflow

LOOK_AGAIN = (0.005, 0.25)
"""The pauses between two polls of a wait: the first one, and the longest one that it grows to."""
MOST_NAMESAKES = 100


def enqueue(sf: Standfast, queue: str, payload: Any, options: dict[str, Any]) -> Receipt:
    """Store one job."""
    return sf.enqueue_sync(queue, payload, **options)


def start(sf: Standfast, flow: Workflow) -> dict[str, str]:
    """Store a workflow; return the job's id of each step."""
    steps = workflow(sf, run_sync(flow.start()))["steps"]
    return {name: step["job_id"] for name, step in steps.items()}


def status(sf: Standfast, task_id: str) -> JobView | None:
    """Look at a job by its id, or by the `task_id=` that its caller gave it."""
    found = run_sync(sf.status(task_id))
    if found is not None:
        return found
    alike = run_sync(sf.jobs(q=task_id, limit=MOST_NAMESAKES))
    return next((each for each in alike if each.idempotency_key == task_id), None)


def workflow(sf: Standfast, workflow_id: str) -> dict[str, Any]:
    """Look at a workflow with its steps."""
    return run_sync(sf.workflows.get(workflow_id))


def cancel(sf: Standfast, job_id: str) -> JobView:
    """End a job that is no longer wanted."""
    return run_sync(sf.cancel(job_id))


class TimeLeft:
    """The rest of a timeout that was given once; None never ends."""

    def __init__(self, timeout: float | None) -> None:
        self._give_up = None if timeout is None else time.monotonic() + timeout

    @property
    def seconds(self) -> float | None:
        """How many seconds are left."""
        return None if self._give_up is None else self._give_up - time.monotonic()


class Patience:
    """Waits a little longer each time, until the timeout."""

    def __init__(self, what: str, timeout: float | None) -> None:
        self._what = what
        self._left = TimeLeft(timeout)
        self._pause, self._longest = LOOK_AGAIN

    def wait(self) -> None:
        """Wait once; raise TimeoutError after the timeout."""
        left = self._left.seconds
        if left is not None and left <= 0:
            raise TimeoutError(f"{self._what} is not done in time; it goes on, so ask again")
        time.sleep(self._pause if left is None else min(self._pause, left))
        self._pause = min(self._longest, self._pause * 1.5)
