"""Queues and handlers of an app: every task is a handler in every queue that a call may go to."""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from standfast.celery.task import OF_QUEUE
from standfast.celery.task_hooks import after_attempt, hears_of_failures
from standfast.celery.task_request import TaskCall
from standfast.celery.task_routing import queue_names, queues_in
from standfast.celery.task_run import run_attempt
from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.user_code import call_user_code
from standfast.errors import ConfigurationError
from standfast.rules import seconds

if TYPE_CHECKING:
    from standfast.application import Standfast
    from standfast.celery.app_conf import Conf
    from standfast.celery.task import Task
    from standfast.wings.effects.handler_job import Job
    from standfast.worker.failure_calls import ReportedFailure

NO_LIMIT = 10 * 365 * 86400.0
"""The timeout of a task with `timeout=None`: a handler with none gets its queue's, so it gets ten years."""


class HasTasks(Protocol):
    """An app with tasks and their queues."""

    conf: Conf
    tasks: dict[str, Task]

    def queue_of(self, task: str) -> str:
        """Return the queue of a task."""


class Registration:
    """Keeps the queues and handlers of a Standfast in step with the tasks of its app."""

    def __init__(self, app: HasTasks, sf: Standfast) -> None:
        self._app = app
        self.sf = sf
        self._done: set[tuple[str, str]] = set()
        self._rules: dict[str, dict[str, Any]] = {}
        self._queues: set[str] = set()
        self._seen = (-1, -1)
        self._hears_of_failures = False
        self._serving = ForkableLock()

    def queues(self) -> set[str]:
        """Return every queue that a call may go to; each is declared, with every task as a handler."""
        seen = (self._app.conf.changes, len(self._app.tasks))
        if seen != self._seen:
            with self._serving:
                self._queues = self._known()
                self._serve(self._queues)
                self._seen = seen
        return self._queues

    def _known(self) -> set[str]:
        conf = self._app.conf
        found = {conf.task_default_queue, *queue_names(conf.task_queues), *queues_in(conf.task_routes)}
        return found | {self._app.queue_of(name) for name in self._app.tasks}

    def _serve(self, queues: set[str]) -> None:
        for queue in sorted(queues):
            self._declare(queue)
            for task in self._app.tasks.values():
                if (queue, task.name) not in self._done:
                    self._done.add((queue, task.name))
                    self._register(queue, task)

    def _declare(self, queue: str) -> None:
        rules = self._rules_of(queue)
        if self._rules.get(queue) != rules:
            self._rules[queue] = rules
            self.sf.queue(queue, **rules)

    def _rules_of(self, queue: str) -> dict[str, Any]:
        conf = self._app.conf
        rules: dict[str, Any] = {"attempts": _most_attempts(self._app.tasks.values())}
        if conf.result_expires is not None:
            expires = conf.result_expires
            rules["keep_completed"] = expires.total_seconds() if hasattr(expires, "total_seconds") else expires
        rate = self._rate_of(queue)
        return rules if rate is None else {**rules, "rate": rate}

    def _rate_of(self, queue: str) -> str | None:
        here = [task for name, task in self._app.tasks.items() if self._app.queue_of(name) == queue]
        limited = [task for task in here if _rate(task, self._app.conf) is not None]
        if not limited:
            return None
        if len(here) > 1:
            other = next(task.name for task in here if task is not limited[0])
            raise ConfigurationError(
                f"task {limited[0].name} has rate_limit= and shares queue {queue!r} with {other}: standfast limits "
                "queues, over all workers. Give it its own queue, as @app.task(rate_limit='10/m', queue='mail')"
            )
        return _rate(limited[0], self._app.conf)

    def _register(self, queue: str, task: Task) -> None:
        of_app = self._app.conf.task_time_limit if task.timeout == OF_QUEUE else None
        limit = of_app if task.time_limit is None else task.time_limit
        named: Any = partial(self._run, task.name)
        named.__qualname__ = named.__name__ = task.name
        named.registered_in = task.__module__
        if limit is not None:
            self._have_a_child_find(named, task)
        options: dict[str, Any] = {"replay": task.replay, "effects": task.effects, "risk": task.risk}
        self.sf.handler(
            queue,
            name=task.name,
            input=TaskCall,
            timeout=_timeout(task) if limit is None else limit,
            isolate=limit is not None,
            soft=False,
            **options,
        )(named)
        if not self._hears_of_failures and hears_of_failures(task):
            self._hears_of_failures = True
            self.sf.on_failure(self._after_attempt)

    def _have_a_child_find(self, handler: Any, task: Task) -> None:
        """Set what a child process imports to find a task: first the app, which may have to set up Django."""
        module = module_of(self._app)
        if module != "__main__":
            handler.application_in = module
        elif task.is_shared:  # the task's own module knows no app
            handler.registered_in = module

    def _run(self, name: str, job: Job) -> Any:
        """Run the task that has this name now: one that is declared again replaces the earlier one."""
        return run_attempt(self._app.tasks[name], job)

    async def _after_attempt(self, job: Job, failure: ReportedFailure, error: BaseException | None) -> None:
        task = self._app.tasks.get(job.handler)
        if task is not None and hears_of_failures(task):
            await call_user_code(after_attempt, task, job, failure, error)


def module_of(app: object) -> str:
    """Return a module that contains this app, the main program last; empty if no module has it yet."""
    found = [name for name, module in list(sys.modules.items()) if _has(module, app)]
    return min(found, key=lambda name: name == "__main__", default="")


def _has(module: Any, app: object) -> bool:
    return any(each is app for each in list(getattr(module, "__dict__", {}).values()))


def _timeout(task: Task) -> float | None:
    """Return the timeout of a task's handler; None means its queue's."""
    if task.timeout == OF_QUEUE:
        return None
    return NO_LIMIT if task.timeout is None else seconds(task.timeout)


def _rate(task: Task, conf: Conf) -> str | None:
    given = conf.task_default_rate_limit if task.rate_limit is None else task.rate_limit
    if not given:
        return None
    if isinstance(given, str):
        return given if "/" in given else f"{given}/s"
    if given == math.floor(given):
        return f"{int(given)}/s"
    raise ConfigurationError(f"rate_limit={given!r} of task {task.name}: write whole numbers, such as '30/m'")


def _most_attempts(tasks: Any) -> int:
    from standfast.celery.celery_app import attempts_of  # noqa: PLC0415 - the app says it where tasks are enqueued

    return max((attempts_of(task) for task in tasks), default=1)
