"""When a task is tried again: on `self.retry()` and `autoretry_for`, within `max_retries`."""

from __future__ import annotations

import random
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from standfast.celery.exceptions import Ignore, MaxRetriesExceededError, Retry
from standfast.celery.task_request import Request
from standfast.errors import ConfigurationError
from standfast.failure.retry_after import LONGEST_RETRY_AFTER

if TYPE_CHECKING:
    from standfast.celery.task import Task

_random = random.Random()  # noqa: S311 - it spreads retries, and guards nothing


def retry_for(task: Task, request: Request, error: Exception) -> Exception:
    """Return the Retry that an exception leads to, or the exception that the task fails with."""
    if isinstance(error, Ignore | Retry) or not isinstance(error, task.autoretry_for):
        return error
    if isinstance(error, task.dont_autoretry_for):
        return error
    asked: dict[str, Any] = {**task.retry_kwargs}
    if task.retry_backoff:
        asked["countdown"] = backoff(task, request.retries, _random.random())
    return next_retry(task, request, error, **asked)


def next_retry(
    task: Task,
    request: Request,
    exc: BaseException | None = None,
    *,
    countdown: float | None = None,
    eta: datetime | None = None,
    max_retries: int | None = None,
) -> Exception:
    """Return the Retry that was requested, or if no retry is left, the exception that the task fails with."""
    most = _most(task, max_retries)
    if most is not None and request.retries >= most:
        return _as_exception(exc) or MaxRetriesExceededError(
            f"Can't retry {task.name}[{request.id}] args:{request.args} kwargs:{request.kwargs}"
        )
    return Retry(exc=exc, when=_wait(task, countdown, eta))


def backoff(task: Task, retries: int, roll: float) -> int:
    """Return the seconds to wait before a retry: doubling up to a cap, and by default a random part of that."""
    longest: int = min(int(task.retry_backoff_max), max(1, int(task.retry_backoff)) * 2 ** min(retries, 60))
    return int(roll * (longest + 1)) if task.retry_jitter else longest


def _as_exception(exc: BaseException | None) -> Exception | None:
    return exc if isinstance(exc, Exception) else None


def _most(task: Task, asked: int | None) -> int | None:
    if asked is None or task.max_retries is None:
        return task.max_retries if asked is None else asked
    if asked <= task.max_retries:
        return asked
    raise ConfigurationError(
        f"retry(max_retries={asked}) asks for more than task {task.name} has: a job's attempts are counted from its "
        f"start, so write @app.task(max_retries={asked})"
    )


def _wait(task: Task, countdown: float | None, eta: datetime | None) -> float:
    if eta is not None:
        seconds = max(0.0, eta.timestamp() - time.time())
    else:
        seconds = float(task.default_retry_delay if countdown is None else countdown)
    if seconds <= LONGEST_RETRY_AFTER:
        return max(0.0, seconds)
    raise ConfigurationError(
        f"task {task.name} asks to be retried in {seconds:g} s: a retry waits at most a day. Enqueue a new run with "
        "apply_async(countdown=...), and return"
    )
