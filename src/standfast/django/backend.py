"""The backend: what `TASKS["default"]["BACKEND"]` names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from asgiref.sync import async_to_sync
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from standfast.application import Standfast
from standfast.django import options, results
from standfast.django.enqueuing import Enqueuing, has_outbox
from standfast.django.standfast_task import StandfastTask
from standfast.django.task_payload import HANDLERS, enqueue_options, payload_of
from standfast.django.task_store import TaskStore, store_for
from standfast.django.tasks_framework import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from standfast.views import JobView


class StandfastBackend(BaseTaskBackend):
    """Runs Django's tasks as standfast jobs. Each thread has its own backend; all share one store."""

    task_class = StandfastTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._options = options.read(alias, self.options)

    @property
    def sf(self) -> Standfast:
        """The store of these tasks, with all of standfast's methods."""
        return self._store.sf

    @cached_property
    def _store(self) -> TaskStore:
        """The store, ready to run tasks of every queue in the settings, and to relay the outbox."""
        found = store_for(self._options)
        for queue in sorted({*self.queues, *self._options.queues}):
            found.serve(queue, type(self), self._options.queues.get(queue))
        if self._options.enqueue == "transaction" and has_outbox(connections[self._options.database]):
            found.outbox(self._options.database)
        return found

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Enqueue a task. In a transaction, it exists exactly if that commits."""
        self.validate_task(task)
        call = payload_of(task, args, kwargs)
        self._store.serve(task.queue_name, type(self))
        receipt = Enqueuing(self._store, self._options).enqueue(task.queue_name, call, **enqueue_options(task))
        result = results.new_result(task, receipt.id or "", call, self.alias)
        if receipt.outcome != "duplicate":
            task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """Find a task by the id of its result."""
        return self._result(result_id, async_to_sync(self.sf.status)(result_id))

    async def aget_result(self, result_id: str) -> TaskResult:
        """Do the same on an event loop."""
        return self._result(result_id, await self.sf.status(result_id))

    def _result(self, result_id: str, job: JobView | None) -> TaskResult:
        if job is None or job.handler not in HANDLERS:
            raise TaskResultDoesNotExist(f"no task here has the id {result_id}")
        return results.stored_result(job)

    def check(self, **_given: Any) -> Iterable[checks.CheckMessage]:
        """Report what is wrong with the settings, for `manage.py check`."""
        if self._options.database not in connections.settings:
            hint = f"Name one of {', '.join(sorted(connections.settings))}."
            message = f"OPTIONS['database'] is {self._options.database!r}, which DATABASES does not have."
            yield checks.Error(message, hint=hint, obj=f"TASKS[{self.alias!r}]", id="standfast.E001")
        if not self.queues:
            message = "QUEUES is empty: a worker serves only the queues that settings name."
            hint = "List every queue in QUEUES, so that no task waits for a worker that does not know its queue."
            yield checks.Warning(message, hint=hint, obj=f"TASKS[{self.alias!r}]", id="standfast.W001")


def backend_named(alias: str | None = None) -> StandfastBackend:
    """Return the backend of an alias in TASKS, or standfast's only one; of several, the default one."""
    from standfast.django.tasks_framework import task_backends  # noqa: PLC0415 - it reads settings

    found = {each: task_backends[each] for each in task_backends.settings}
    ours = {name: each for name, each in found.items() if isinstance(each, StandfastBackend)}
    wanted = alias or ("default" if "default" in ours else next(iter(ours), "default"))
    if wanted not in ours:
        raise ImproperlyConfigured(
            f"TASKS has no backend {wanted!r} of standfast; write "
            f"TASKS = {{{wanted!r}: {{'BACKEND': 'standfast.django.StandfastBackend'}}}}"
        )
    return ours[wanted]
