"""Jobs in Django's form: `TaskResult`, with its four statuses."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from standfast.django.task_payload import task_of
from standfast.django.tasks_framework import Task, TaskError, TaskResult, TaskResultStatus
from standfast.errors import StandfastError
from standfast.lifecycle import State
from standfast.views import JobView
from standfast.wings.effects.handler_job import Job

STATUSES = {
    State.QUEUED: TaskResultStatus.READY,
    State.WAITING: TaskResultStatus.READY,
    State.HELD: TaskResultStatus.READY,  # it continues once a person has answered
    State.RUNNING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
NOTE = "Django task {task} raised {error}"
_NAMED = re.compile(r"^Django task \S+ raised (?P<error>[\w.]+)$", re.MULTILINE)


class TaskFailed(StandfastError):
    """The error class of a task that raised nothing: its worker died, it timed out, or it was cancelled."""


def note_class(error: BaseException, task: str) -> None:
    """Append the name of an exception's class to its traceback: `TaskError` needs it."""
    kind = type(error)
    error.add_note(NOTE.format(task=task, error=f"{kind.__module__}.{kind.__qualname__}"))


def new_result(task: Task, job_id: str, call: dict[str, Any], alias: str) -> TaskResult:
    """Return the result of a task that was just enqueued."""
    return _result(task, job_id, call, alias, status=TaskResultStatus.READY, enqueued_at=timezone.now())


def running_result(task: Task, job: Job, alias: str) -> TaskResult:
    """Return the result of a task that an attempt is about to run, or has just run."""
    now = timezone.now()
    workers = [str(job.log_fields["worker"])] * job.attempt
    times = {"enqueued_at": _minted(job.id), "started_at": now, "last_attempted_at": now}
    status = TaskResultStatus.RUNNING
    return _result(task, job.id, job.payload, alias, status=status, worker_ids=workers, **times)


def finish(result: TaskResult, returned: Any) -> None:
    """Record a running task's return value in its result."""
    _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=returned)


def stored_result(job: JobView) -> TaskResult:
    """Return the result of a stored job."""
    task = task_of(job.payload, job.queue, job.priority)
    started = job.history[0].at if job.history else job.claimed_at
    result = _result(
        task,
        job.id,
        job.payload,
        job.payload["backend"],
        status=status_of(job),
        errors=_errors(job),
        worker_ids=_worker_ids(job),
        enqueued_at=_shown(job.created_at),
        started_at=_shown(started),
        last_attempted_at=_shown(job.claimed_at or started),
        finished_at=_shown(job.finished_at) if job.settled else None,
    )
    _set(result, _return_value=job.result)
    return result


def status_of(job: JobView) -> TaskResultStatus:
    """Return a job's status in Django's words; a dead job that will be replayed automatically is READY again."""
    return STATUSES[job.state] if job.state != State.DEAD or job.settled else TaskResultStatus.READY


def _result(task: Task, job_id: str, call: dict[str, Any], alias: str, **known: Any) -> TaskResult:
    unknown = dict.fromkeys(("enqueued_at", "started_at", "last_attempted_at", "finished_at"))
    lists: dict[str, Any] = {"errors": [], "worker_ids": []}
    about = {"task": task, "id": job_id, "backend": alias, "args": call["args"], "kwargs": call["kwargs"]}
    return TaskResult(**{**unknown, **lists, **about, **known})


def _set(result: TaskResult, **values: Any) -> None:
    """Change a result, which is frozen for all but its backend."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _errors(job: JobView) -> list[TaskError]:
    """Return the last failure; without an exception, with a class of ours, and the reason as its traceback."""
    failure = job.failure
    if failure is None:
        return []
    traceback = failure.traceback or ""
    named = [found["error"] for found in _NAMED.finditer(traceback)]
    ours = f"{TaskFailed.__module__}.{TaskFailed.__qualname__}"
    reason = f"{failure.reason_code}: {failure.message}\n{failure.advice}"
    return [TaskError(exception_class_path=named[-1] if named else ours, traceback=traceback or reason)]


def _worker_ids(job: JobView) -> list[str]:
    """Name the worker of each attempt. The worker of a completed attempt is not kept."""
    known = {line.attempt: line.worker for line in job.history if line.worker is not None}
    return [known.get(number, job.worker or "") or "" for number in range(1, job.attempts + 1)]


def _shown(at: datetime | None) -> datetime | None:
    """Return a moment in the form of Django's settings: aware, or naive in Django's time zone."""
    return None if at is None else (at if timezone.settings.USE_TZ else timezone.make_naive(at))


def _minted(job_id: str) -> datetime | None:
    """Return when a job was enqueued, as encoded in its id."""
    return _shown(datetime.fromtimestamp(int(job_id[:8] + job_id[9:13], 16) / 1000, UTC))
