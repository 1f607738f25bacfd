"""A call of a task as a job's payload, and back."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.utils import timezone
from django.utils.module_loading import import_string

from standfast.django.tasks_framework import Task, normalize_json

PLAIN = "django_task"
"""The handler of tasks that are plain functions."""
ASYNC = "django_async_task"
"""The handler of tasks that are coroutine functions."""
HANDLERS = (PLAIN, ASYNC)
LONGEST_LABEL = 200


class TaskPayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call as it is stored; one that does not fit is refused when it is enqueued, from Django or elsewhere."""

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    run_after: str | None = None


def payload_of(task: Task, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return a call as a payload."""
    call = {"task": task.module_path, "args": normalize_json(args), "kwargs": normalize_json(kwargs)}
    if task.run_after is not None:
        call["run_after"] = moment(task.run_after).isoformat()
    return {**call, "backend": task.backend}


def enqueue_options(task: Task) -> dict[str, Any]:
    """Return a task's options for `sf.enqueue`."""
    handler = ASYNC if inspect.iscoroutinefunction(task.func) else PLAIN
    options = {"handler": handler, "priority": task.priority, "labels": {"task": task.module_path[:LONGEST_LABEL]}}
    if task.run_after is not None:
        options["at"] = moment(task.run_after)
    return {**options, **getattr(task, "own_options", {})}


def moment(given: datetime) -> datetime:
    """Return a moment with its time zone; without one, it is in Django's (with USE_TZ off)."""
    return given if timezone.is_aware(given) else timezone.make_aware(given)


def task_of(payload: dict[str, Any], queue: str, priority: int | None = None) -> Task:
    """Return the task of a stored call, as it was enqueued; raise ImportError if this code has no such task."""
    path = payload["task"]
    found = import_string(path)
    if not isinstance(found, Task):
        what = f"{path} is a {type(found).__name__} and no task any more: decorate it with @task again"
        raise ImportError(what)  # noqa: TRY004 - to the caller, this code has no such task
    when = payload.get("run_after")
    run_after = None if when is None else datetime.fromisoformat(when).astimezone(UTC)
    return found.using(priority=priority, queue_name=queue, run_after=run_after, backend=payload["backend"])
