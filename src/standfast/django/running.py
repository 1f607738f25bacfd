"""Runs tasks in a worker: one handler for plain functions, one for coroutine functions.

The ORM's connections are cleaned up around each attempt, as Django does around each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections, reset_queries

from standfast.django import results
from standfast.django.task_payload import task_of
from standfast.django.tasks_framework import (
    InvalidTask,
    TaskContext,
    TaskResult,
    normalize_json,
    task_finished,
    task_started,
)
from standfast.errors import Transient
from standfast.outcome import Cancel, Snooze
from standfast.wings.effects.handler_job import Job


class TaskCall:
    """One attempt at a task."""

    def __init__(self, job: Job, sender: type) -> None:
        try:
            task = task_of(job.payload, job.queue)
        except (ImportError, ImproperlyConfigured, InvalidTask) as error:  # nothing has run; a deployment may bring it
            raise Transient(f"this worker has no task {job.payload['task']}: {error}") from error
        self._task = task
        self._job = job
        self._sender = sender
        self.result: TaskResult = results.running_result(task, job, job.payload["backend"])

    def run(self) -> Any:
        """Call a plain function."""
        with self._naming_errors():
            task_started.send(self._sender, task_result=self.result)
            returned = self._task.func(*self._arguments, **self._job.payload["kwargs"])
            if self._finish(returned):
                task_finished.send(self._sender, task_result=self.result)
        return self._kept(returned)

    async def run_async(self) -> Any:
        """Await a coroutine function."""
        with self._naming_errors():
            await task_started.asend(self._sender, task_result=self.result)
            returned = await self._task.func(*self._arguments, **self._job.payload["kwargs"])
            if self._finish(returned):
                await task_finished.asend(self._sender, task_result=self.result)
        return self._kept(returned)

    @property
    def _arguments(self) -> list[Any]:
        context = [TaskContext(task_result=self.result)] if self._task.takes_context else []
        return [*context, *self._job.payload["args"]]

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # raised again: the worker classifies it
            results.note_class(error, self._job.payload["task"])
            raise

    def _finish(self, returned: Any) -> bool:
        """Record what it returned; return whether that is the end. A task may also return `Snooze` or `Cancel`."""
        if isinstance(returned, Snooze | Cancel):
            return False
        results.finish(self.result, normalize_json(returned))
        return True

    def _kept(self, returned: Any) -> Any:
        return returned if isinstance(returned, Snooze | Cancel) else normalize_json(returned)


def run_plain(job: Job, sender: type) -> Any:
    """Run a task that is a plain function, in a thread of the worker."""
    with _own_connections():
        return TaskCall(job, sender).run()


async def run_async(job: Job, sender: type) -> Any:
    """Run a task that is a coroutine function. Its `sync_to_async` calls get a thread of their own."""
    async with ThreadSensitiveContext():
        try:
            return await TaskCall(job, sender).run_async()
        finally:
            await sync_to_async(connections.close_all)()


@contextmanager
def _own_connections() -> Iterator[None]:
    """Close broken or expired connections before and after, and clear the queries recorded by DEBUG."""
    reset_queries()
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
