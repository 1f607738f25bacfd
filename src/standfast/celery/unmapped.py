"""What Celery has and standfast does not: each name is refused, with what to use instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from standfast.errors import ConfigurationError

PICKLE = "standfast stores JSON and never pickles; pass ids, and load the objects in the task"
LETTERS = "a task that failed for good is a dead letter: see `standfast dead list`, or use base= with on_failure"

LOGGING = "have your module set up the root logger (logging.config.dictConfig): a command then leaves logging alone"
QUEUES = "a queue is its name, and there is no exchange: task_queues=['mail', 'reports']"

TASK_OPTIONS = {
    "soft_time_limit": "nothing is raised inside a running task: use time_limit=, which ends its process, or poll "
    "self.job.cancelled with bind=True",
    "compression": "payloads are stored as they are; pass a reference to what is large",
    "throws": "leave it out: it changes only how loudly Celery's worker logs. What failed for good is a dead letter",
    "backend": "results are kept with their jobs, in the store itself",
    "send_events": "every job tells what happens to it: `standfast tail`",
    "store_errors_even_if_ignored": "failures are always kept",
    "acks_on_failure_or_timeout": "a task that fails is kept as a dead letter; nothing is acknowledged away",
    "resultrepr_maxsize": "results are kept whole, up to 1 MiB",
    "pydantic": "declare a handler with input=: @app.sf.handler('queue', input=Model)",
    "request": "standfast makes the request",
}
CALL_OPTIONS = {
    "link": "write chain(task.s(...), callback): both are stored together, or neither",
    "link_error": LETTERS,
    "exchange": "there is no broker to route in: name a queue=",
    "routing_key": "there is no broker to route in: name a queue=",
    "delivery_mode": "every job is on disk before apply_async returns",
    "compression": TASK_OPTIONS["compression"],
    "producer": "there is no broker to connect to",
    "connection": "there is no broker to connect to",
    "publisher": "there is no broker to connect to",
    "retry": "an enqueue that finds the store away is repeated by itself for 5 s; see otherwise= of sf.enqueue",
    "retry_policy": "an enqueue that finds the store away is repeated by itself for 5 s; see otherwise= of sf.enqueue",
    "shadow": "give the task a name=",
    "headers": "pass it as an argument of the task",
    "add_to_parent": "a workflow shows its steps: `standfast workflow show ID`",
    "chord": "write chord(header, body)",
    "group_id": "write group(...)",
    "root_id": "a workflow shows its steps: `standfast workflow show ID`",
    "parent_id": "a workflow shows its steps: `standfast workflow show ID`",
    "time_limit": "a limit belongs to the task: @app.task(time_limit=...)",
    "soft_time_limit": TASK_OPTIONS["soft_time_limit"],
    "ignore_result": "say it where the task is declared: @app.task(ignore_result=True)",
}
SETTINGS = {
    "broker_transport_options": "the visibility timeout is the lease: app.sf.queue('celery', lease='2m'), which is "
    "renewed while a task runs",
    "task_annotations": "write the options where the task is declared",
    "task_soft_time_limit": TASK_OPTIONS["soft_time_limit"],
    "task_default_exchange": "there is no broker to route in: use task_default_queue",
    "task_default_routing_key": "there is no broker to route in: use task_default_queue",
    "task_compression": TASK_OPTIONS["compression"],
    "task_send_sent_event": TASK_OPTIONS["send_events"],
    "worker_send_task_events": TASK_OPTIONS["send_events"],
    "worker_max_tasks_per_child": "run `standfast worker --recycle-after 1000`",
    "worker_max_memory_per_child": "run `standfast worker --recycle-above 512M`",
    "worker_pool": "plain functions run in threads, tasks with a time_limit in processes of their own",
    "beat_scheduler": "any worker enqueues what is due; there is no beat process",
    "beat_schedule_filename": "schedules are kept in the store; there is no beat process",
    "security_key": "the store's own rights say who may write to it",
}
NAMES = {
    "celery.exceptions": {
        "SoftTimeLimitExceeded": TASK_OPTIONS["soft_time_limit"],
        "WorkerLostError": "a task whose worker died runs again, or fails as reason code `worker_lost`",
    },
    "celery.result": {
        "allow_join_result": "write result.get(disable_sync_subtasks=False)",
    },
    "celery.schedules": {
        "solar": "have a task compute the times and call apply_async(eta=...)",
    },
    "celery": {
        "chunks": "write group(task.s(part) for part in parts)",
        "xmap": "write group(task.s(item) for item in items)",
        "xstarmap": "write group(task.s(*item) for item in items)",
        "bootsteps": "use @app.sf.on_startup and @app.sf.on_shutdown",
        "Queue": QUEUES,
        "Exchange": QUEUES,
        "current_task": "declare the task with bind=True, and use self",
    },
    "celery.signals": {
        "task_failure": "use a base= class with on_failure, which is called when a task has failed for good; or "
        "@app.sf.on_failure, called with (job, failure, exception) after every failed attempt: failure.final is true "
        "for the last",
        "task_prerun": "use @app.sf.middleware, around each attempt",
        "task_postrun": "use @app.sf.middleware, around each attempt",
        "worker_init": "use @app.sf.on_startup, before the first claim",
        "worker_process_init": "use @app.sf.on_startup, before the first claim; it does not run in the child process "
        "of a task with time_limit=, which has only what its module opens when it is imported",
        "worker_ready": "use @app.sf.on_startup, before the first claim",
        "worker_shutdown": "use @app.sf.on_shutdown, after the last attempt",
        "setup_logging": LOGGING,
        "after_setup_logger": LOGGING,
        "after_setup_task_logger": LOGGING,
        "worker_process_shutdown": "use @app.sf.on_shutdown, after the last attempt; it does not run in the child "
        "process of a task with time_limit=",
    },
}
SIGNALS = "use a base= class with on_success, on_failure and on_retry, @app.sf.on_failure, or app.sf.subscribe()"


def refuse(what: str, given: Iterable[str], unmapped: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse unmapped names with what to do instead, and unknown names with the nearest known one."""
    names = list(known)
    for name in given:
        if name in unmapped:
            raise ConfigurationError(f"{what} {name!r} of Celery does not map to standfast: {unmapped[name]}")
        if name not in names:
            raise ConfigurationError.unknown(what, name, names)


KEEP_IDS = "keep the ids of its tasks, [each.id for each in result], and ask AsyncResult(id) for each"
APP = {
    "events": "use app.sf.subscribe(), or `standfast tail`",
    "backend": "results are kept with their jobs: app.AsyncResult(id)",
    "connection": "there is no broker to connect to; the store is app.sf",
    "amqp": "there is no broker to route in; the store is app.sf",
    "start": "run `standfast worker module:app`, or app.worker_main()",
    "steps": "use @app.sf.on_startup and @app.sf.on_shutdown",
    "user_options": "a worker takes no options of your own; read them from the environment",
    "log": LOGGING,
    "GroupResult": KEEP_IDS,
}
"""Attributes of an app that do not map."""
WORKERS = "see `standfast workers`, `standfast jobs --state running`, or app.sf.sync.jobs(state='running')"
CONTROL = {
    "inspect": WORKERS,
    "ping": WORKERS,
    "purge": "cancel the jobs: `standfast jobs --state queued` lists them, app.control.revoke(ids) cancels them",
    "rate_limit": "change the rate of the task's queue: app.sf.queue('mail', rate='10/m')",
    "time_limit": "a limit belongs to the task: @app.task(time_limit=...)",
    "shutdown": "send SIGTERM to the worker",
    "add_consumer": "app.sf.queues.resume(name), or start a worker with --queues",
    "cancel_consumer": "app.sf.queues.pause(name)",
    "pool_grow": "start another worker",
    "pool_shrink": "stop a worker",
    "broadcast": "there is no remote control; workers and jobs are in the store, see app.sf",
    "enable_events": "every job tells what happens to it: `standfast tail`",
}
"""Attributes of `app.control` that do not map."""
TASK = {
    "map": "write group(task.s(item) for item in items)",
    "starmap": "write group(task.s(*item) for item in items)",
    "chunks": "write group(task.s(part) for part in parts)",
    "replace": "start another task or canvas at the end of this one",
    "add_to_chord": "start another task or canvas at the end of this one",
    "send_event": "write self.job.progress(0.4, 'page 4 of 10')",
    "backend": "results are kept with their jobs: AsyncResult(id)",
}
"""Attributes of a task that do not map."""
SHOWN = "the job has what is known of it: AsyncResult(id).view"
RESULT = {
    "children": "results lead back, not forward: keep what apply_async() returns, and follow its .parent",
    "collect": "call .get(); results lead back by .parent",
    "iterdeps": "results lead back by .parent",
    "get_leaf": "what apply_async() of a canvas returns is its last result",
    "then": "write chain(task.s(...), callback)",
    "maybe_throw": "call .get(), which raises what the task failed with",
    **dict.fromkeys(("name", "args", "kwargs", "worker", "retries", "queue"), SHOWN),
}
"""Attributes of a result that do not map."""
GET = dict.fromkeys(("callback", "on_message", "on_interval"), "call it without, and look at AsyncResult(id).view")
"""Options of `get` that do not map."""
GROUP_RESULT = dict.fromkeys(("id", "save", "restore", "delete", "parent"), KEEP_IDS) | {
    "join_native": "call .join()",
    "iter_native": "go through the results: for each in result: each.get()",
    "maybe_throw": "call .get(), which raises what a task failed with",
    "then": "write chord(header, callback)",
}
"""Attributes of a group's result that do not map."""
REQUEST = dict.fromkeys(
    ("root_id", "parent_id", "group", "chord", "chain", "eta", "expires", "headers", "reply_to", "correlation_id"),
    "self.job has what is known of the job, and app.sf.workflows of the canvas that it is part of",
) | {"timelimit": "the limit is the task's own: self.time_limit"}
"""Attributes of `self.request` that do not map."""
CANVAS = {
    "link": CALL_OPTIONS["link"],
    "link_error": LETTERS,
    "on_error": LETTERS,
    "freeze": "a canvas has its ids once it is started",
    "replace": "start another canvas at the end of the task",
}
"""Attributes of a signature that do not map."""


def missing_attribute(what: str, name: str, unmapped: Mapping[str, str]) -> Exception:
    """Return the error for a missing attribute of a Celery object."""
    if name in unmapped:
        return ConfigurationError(f"{what}.{name} of Celery does not map to standfast: {unmapped[name]}")
    return AttributeError(f"{what} has no attribute {name!r}")


def missing_name(module: str, name: str) -> Exception:
    """Return the error for a missing Celery name; for Python's own look-ups, a plain AttributeError."""
    if name.startswith("__"):
        return AttributeError(name)
    instead: Any = NAMES.get(module, {}).get(name)
    if instead is None and module != "celery.signals":
        where = "the page From Celery (docs/migrating/celery.md)"
        return AttributeError(f"standfast.{module} has no {name!r}; {where} lists what it has")
    return ConfigurationError(f"{module}.{name} does not map to standfast: {instead or SIGNALS}")
