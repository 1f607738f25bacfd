"""One attempt at a task: its arguments are read, its function is called, and its end is judged as Celery would."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from standfast.celery.autoretry import retry_for
from standfast.celery.django_connections import fresh_connections
from standfast.celery.exceptions import Ignore, Reject, Retry
from standfast.celery.task_arguments import read, written
from standfast.celery.task_request import EVERY, Request, Takes, TaskCall, id_of_task, running, step_number
from standfast.concurrency.guarded import call_guarded
from standfast.errors import HandlerFailure, PayloadRejected, Permanent
from standfast.failure import Class
from standfast.failure.classify import JUDGED, of_exception
from standfast.failure.traceback_text import traceback_of
from standfast.outcome import Cancel, Failed, Snooze
from standfast.wings.effects.handler_job import Job

if TYPE_CHECKING:
    from standfast.celery.task import Task

REQUEUED_AFTER = 1.0
"""Seconds after which a task that raised Reject(requeue=True) is offered again."""


class ExceptionInfo:
    """What `on_failure` and `on_retry` of a task are told about an exception."""

    def __init__(self, error: BaseException) -> None:
        self.exception = error
        self.type = type(error)
        self.traceback = traceback_of(error)

    def __str__(self) -> str:
        return self.traceback


def run_attempt(task: Task, job: Job) -> Any:
    """Run a task for a job: the handler that every task is registered as."""
    call: TaskCall = job.input
    args, kwargs = _arguments(call, job.parents)
    retries = job.handed_over.repeat - 1
    request = Request(
        task=task.name,
        id=id_of_task(job),
        retries=retries,
        args=args,
        kwargs=kwargs,
        queue=job.queue,
        called_directly=False,
        job=job,
    )
    with running(request), fresh_connections():
        return call_guarded(partial(_complete, task, request, feeds=call.feeds), partial(_end, task, request))


def _complete(task: Task, request: Request, *, feeds: bool) -> Any:
    result = call_hooked(task, request)
    if task.ignores_result and not feeds:
        return None
    try:
        return written(result, f"the result of task {task.name}")
    except PayloadRejected:
        if feeds:  # whoever comes next would be called with None
            raise
        return result  # completed all the same, with the warning `result_not_stored`


def call_hooked(task: Task, request: Request) -> Any:
    """Call a task's function between its own hooks."""
    task.before_start(*request.about)
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
    if isinstance(error, HandlerFailure):  # it speaks standfast's own words
        raise error
    found = retry_for(task, request, error)
    raised = again(task, request, found) if isinstance(found, Retry) else for_good(task, request, found)
    raise raised from raised.__cause__  # not from how it came here


def _words(error: Exception) -> str:
    return f": {error}" if str(error) else ""


def again(task: Task, request: Request, retry: Retry) -> BaseException:
    """Call the hook for a repeat; give what has the attempt repeated after the wait that the task asked for."""
    cause = retry if retry.exc is None else retry.exc.with_traceback(retry.exc.__traceback__ or retry.__traceback__)
    task.on_retry(cause, *request.about, ExceptionInfo(cause))
    judged = of_exception(cause)
    failure = replace(judged.failure, cls=Class.TRANSIENT)
    return _judged(cause, Failed(failure, retry_after=retry.when))


def for_good(task: Task, request: Request, error: Exception) -> BaseException:
    """Call the hooks for an end; give what makes the job a letter: only what was asked to be repeated is."""
    told = ExceptionInfo(error)
    task.on_failure(error, *request.about, told)
    task.after_return("FAILURE", error, *request.about, told)
    judged = of_exception(error)
    return _judged(error, Failed(replace(judged.failure, cls=_last_class(task, request, judged))))


def _judged(error: BaseException, failed: Failed) -> BaseException:
    """Give an exception with how it is judged; not by `setattr`, which a frozen one refuses."""
    vars(error)[JUDGED] = failed
    return error


def _last_class(task: Task, request: Request, judged: Failed) -> Class:
    """Keep the class of an error whose retries are used up: it is then `max_attempts`, which a policy may replay."""
    used_up = task.max_retries is not None and request.retries >= task.max_retries > 0
    return judged.failure.cls if used_up else Class.PERMANENT


def _arguments(call: TaskCall, parents: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    first = [] if call.takes is None else [_result(call.takes, parents)]
    return [*first, *read(call.args)], read(call.kwargs)


def _result(takes: Takes, parents: Mapping[str, Any]) -> Any:
    if takes == EVERY:
        takes = sorted(parents, key=step_number)
    if isinstance(takes, str):
        return read(parents[takes])
    return [_result(each, parents) for each in takes]
