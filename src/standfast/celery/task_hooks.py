"""The hooks of a task's own class after a failed attempt: called once its end, which says what follows, is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from standfast.celery.django_connections import fresh_connections
from standfast.celery.exceptions import rebuild
from standfast.celery.states import FAILURE
from standfast.celery.task_request import Request, TaskCall, id_of_task, running
from standfast.concurrency.guarded import call_guarded
from standfast.failure.classify import RaisedElsewhere
from standfast.failure.traceback_text import traceback_of
from standfast.wings.effects.handler_job import Job

if TYPE_CHECKING:
    from standfast.celery.task import Task
    from standfast.worker.failure_calls import ReportedFailure

AFTER_FAILURE = ("on_failure", "on_retry", "after_return")
TOO_LATE = frozenset({"expired", "max_age"})
"""Reasons of letters that never ran: Celery revokes such a task, and calls no hook."""


class ExceptionInfo:
    """The exception details that `on_failure` and `on_retry` receive."""

    def __init__(self, error: BaseException, trace: str | None = None) -> None:
        self.exception = error
        self.type = type(error)
        self.traceback = traceback_of(error) if trace is None else trace

    def __str__(self) -> str:
        return self.traceback


def hears_of_failures(task: Task) -> bool:
    """Return whether a task's class has its own hook for failed attempts."""
    from standfast.celery.task import Task  # noqa: PLC0415 - a task is registered with its hooks

    return any(getattr(getattr(task, name), "__func__", None) is not getattr(Task, name) for name in AFTER_FAILURE)


def after_attempt(task: Task, job: Job, failure: ReportedFailure, error: BaseException | None) -> None:
    """Call the hooks for an attempt that failed in a worker."""
    if not TOO_LATE.isdisjoint(failure.codes):
        return
    if not isinstance(error, Exception) or isinstance(error, RaisedElsewhere):
        error = rebuild(failure)
    request = request_of(task, job, *_arguments_told(job))
    with running(request), fresh_connections():
        call = after_the_last if failure.final else before_a_repeat
        call(task, request, error, failure.traceback)


def before_a_repeat(task: Task, request: Request, error: BaseException, trace: str | None = None) -> None:
    """Call the hook for an attempt that will be repeated."""
    task.on_retry(error, *request.about, ExceptionInfo(error, trace))


def after_the_last(task: Task, request: Request, error: BaseException, trace: str | None = None) -> None:
    """Call the hooks for the attempt after which the task has failed for good."""
    told = ExceptionInfo(error, trace)
    task.on_failure(error, *request.about, told)
    task.after_return(FAILURE, error, *request.about, told)


def request_of(task: Task, job: Job, args: list[Any], kwargs: dict[str, Any]) -> Request:
    """Return the Celery request for an attempt at a job."""
    return Request(
        task=task.name,
        id=id_of_task(job),
        retries=job.handed_over.repeat - 1,
        args=args,
        kwargs=kwargs,
        queue=job.queue,
        called_directly=False,
        job=job,
    )


def _arguments_told(job: Job) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a run; none if the payload is no valid call, which may be why the attempt failed."""
    from standfast.celery.task_run import arguments  # noqa: PLC0415 - it calls tasks, and these hooks

    return call_guarded(lambda: arguments(msgspec.convert(job.payload, TaskCall), job.parents), lambda _error: ([], {}))
