"""One attempt at a task: read its arguments, call its function, and judge its end as Celery would."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from standfast.celery.autoretry import retry_for
from standfast.celery.django_connections import fresh_connections
from standfast.celery.exceptions import Ignore, Reject, Retry
from standfast.celery.task_arguments import read, written
from standfast.celery.task_hooks import request_of
from standfast.celery.task_request import ENTERED, EVERY, Request, Takes, TaskCall, running, step_number
from standfast.concurrency.guarded import call_guarded
from standfast.errors import HandlerFailure, PayloadRejected, Permanent
from standfast.failure import Class
from standfast.failure.classify import JUDGED, of_exception
from standfast.outcome import Cancel, Failed, Snooze
from standfast.wings.effects.handler_job import Job

if TYPE_CHECKING:
    from standfast.celery.task import Task

REQUEUED_AFTER = 1.0
"""Seconds after which a task that raised Reject(requeue=True) is offered again."""


def run_attempt(task: Task, job: Job) -> Any:
    """Run a task for a job: the handler that every task is registered with."""
    call: TaskCall = job.input
    request = request_of(task, job, *arguments(call, job.parents))
    with running(request), fresh_connections():
        return call_guarded(partial(_complete, task, request, feeds=call.feeds), partial(_end, task, request))


def _complete(task: Task, request: Request, *, feeds: bool) -> Any:
    result = call_hooked(task, request)
    if task.ignores_result and not feeds:
        return None
    try:
        return written(result, f"the result of task {task.name}")
    except PayloadRejected:
        if feeds:  # the next task would be called with None
            raise
        return result  # it completes all the same, with the warning `result_not_stored`


def call_hooked(task: Task, request: Request) -> Any:
    """Call a task's function between its own hooks."""
    task.before_start(*request.about)
    if task.wraps_runs:
        ENTERED.set(request)
        result = task(*request.args, **request.kwargs)
    else:
        result = task.run(*request.args, **request.kwargs)
    task.on_success(result, *request.about)
    task.after_return("SUCCESS", result, *request.about, None)
    return result


def _end(task: Task, request: Request, error: Exception) -> Snooze | Cancel:
    if isinstance(error, Ignore):
        return Cancel(f"task {task.name} raised Ignore{_words(error)}")
    if isinstance(error, Reject) and error.requeue:
        return Snooze(REQUEUED_AFTER)
    if isinstance(error, Reject):
        raise Permanent(f"task {task.name} raised Reject: {error.reason}") from error
    if isinstance(error, HandlerFailure):  # it is one of standfast's own exceptions
        raise error
    found = retry_for(task, request, error)
    raised = _again(found) if isinstance(found, Retry) else _for_good(task, request, found)
    raise raised from raised.__cause__  # without the context added on its way here


def _words(error: Exception) -> str:
    return f": {error}" if str(error) else ""


def cause_of(retry: Retry) -> BaseException:
    """Return the exception behind a retry, with its traceback; without one, the Retry itself."""
    return retry if retry.exc is None else retry.exc.with_traceback(retry.exc.__traceback__ or retry.__traceback__)


def _again(retry: Retry) -> BaseException:
    """Return an exception that makes the attempt repeat after the wait that the task requested."""
    cause = cause_of(retry)
    judged = of_exception(cause)
    failure = replace(judged.failure, cls=Class.TRANSIENT)
    return _judged(cause, Failed(failure, retry_after=retry.when))


def _for_good(task: Task, request: Request, error: Exception) -> BaseException:
    """Return an exception that makes the job a letter: only failures that asked for a retry are repeated."""
    judged = of_exception(error)
    return _judged(error, Failed(replace(judged.failure, cls=_last_class(task, request, judged))))


def _judged(error: BaseException, failed: Failed) -> BaseException:
    """Return an exception with its judgement attached; not by `setattr`, which a frozen exception refuses."""
    vars(error)[JUDGED] = failed
    return error


def _last_class(task: Task, request: Request, judged: Failed) -> Class:
    """Keep an error's class if its retries are used up: the reason becomes `max_attempts`, which policy may replay."""
    used_up = task.max_retries is not None and request.retries >= task.max_retries > 0
    return judged.failure.cls if used_up else Class.PERMANENT


def arguments(call: TaskCall, parents: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Read a task's arguments, with the results of the steps before it first."""
    first = [] if call.takes is None else [_result(call.takes, parents)]
    return [*first, *read(call.args)], read(call.kwargs)


def _result(takes: Takes, parents: Mapping[str, Any]) -> Any:
    if takes == EVERY:
        takes = sorted(parents, key=step_number)
    if isinstance(takes, str):
        return read(parents[takes])
    return [_result(each, parents) for each in takes]
