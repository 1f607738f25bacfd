"""A task: a function with a name, called now, later, or as part of a canvas."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack
from uuid import uuid4

from standfast.celery.autoretry import next_retry
from standfast.celery.call_options import CallOptions
from standfast.celery.canvas import Signature
from standfast.celery.django_connections import on_commit
from standfast.celery.eager import run_eagerly
from standfast.celery.eager_job import eager_job
from standfast.celery.result import AsyncResult, EagerResult
from standfast.celery.task_request import ENTERED, RUNNING, Request, running
from standfast.celery.unmapped import PICKLE, TASK, TASK_OPTIONS, missing_attribute, refuse
from standfast.errors import ConfigurationError
from standfast.spine.claimed_job import CURRENT
from standfast.wings.effects.handler_job import Job
from standfast.wings.isolation import isolated_handler

if TYPE_CHECKING:
    from standfast.celery.celery_app import Celery

Exceptions = tuple[type[BaseException], ...]


class TaskOptions(TypedDict, total=False):
    """The options of `@app.task`. Those from `replay` on are standfast's own, the same as in `@sf.handler`."""

    name: str | None
    bind: bool
    base: Any
    queue: str | None
    max_retries: int | None
    default_retry_delay: float
    autoretry_for: Iterable[type[BaseException]]
    dont_autoretry_for: Iterable[type[BaseException]]
    retry_kwargs: dict[str, Any]
    retry_backoff: float | bool
    retry_backoff_max: int
    retry_jitter: bool
    rate_limit: str | int | None
    ignore_result: bool
    time_limit: float | None
    priority: int | None
    expires: float | datetime | None
    typing: bool
    serializer: str
    acks_late: bool
    reject_on_worker_lost: bool
    track_started: bool
    replay: str | None
    effects: Any
    risk: str | None
    timeout: float | str | None


OF_QUEUE = "queue"
"""The timeout of a task that sets none: its queue's."""
SAYS_WHAT_HOLDS = {
    "serializer": (("json", None), PICKLE),
    "acks_late": (
        (True, None),
        "a task is never acknowledged before it ran; for one that must not run twice, use replay='manual'",
    ),
    "reject_on_worker_lost": (
        (True, None),
        "a task whose worker died runs again; for one that must not, use replay='manual'",
    ),
}
"""Celery options that standfast fulfils in any case, with the values that mean so."""


class Task:
    """A task of an app. Your own class (`base=`) may set its attributes and have hooks."""

    name: str = ""
    bind = False
    queue: str | None = None
    max_retries: int | None = 3
    default_retry_delay: float = 180
    autoretry_for: Exceptions = ()
    dont_autoretry_for: Exceptions = ()
    retry_kwargs: Mapping[str, Any] = {}
    retry_backoff: float | bool = False
    retry_backoff_max: int = 600
    retry_jitter = True
    rate_limit: str | int | None = None
    ignore_result: bool | None = None
    time_limit: float | None = None
    priority: int | None = None
    expires: float | datetime | None = None
    typing = True
    replay: str | None = None
    effects: Any = ()
    risk: str | None = None
    timeout: float | str | None = OF_QUEUE
    """How long a run may take; None means no limit. The thread is not stopped: `time_limit` ends the run's process."""
    run: Callable[..., Any]
    awaits_class = False
    """Whether the task is shared, and was declared before there was an app to give it a class."""

    wraps_runs = False
    """Whether your own class has `__call__`; a worker then calls that, too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.wraps_runs = cls.__call__ is not Task.__call__

    def __init__(self) -> None:
        self._app: Celery | None = None

    @property
    def app(self) -> Celery:
        """The app it belongs to; a shared task belongs to the app that was made last."""
        if self._app is None:
            from standfast.celery.celery_app import newest_app  # noqa: PLC0415 - an app has tasks, and knows itself

            return newest_app()
        return self._app

    @property
    def is_shared(self) -> bool:
        """Whether apps share the task, so that its module knows none of them."""
        return self._app is None

    @property
    def request(self) -> Request:
        """The current run of this task."""
        found = RUNNING.get()
        return found if found is not None and found.task == self.name else Request(task=self.name)

    @property
    def job(self) -> Job:
        """The job of this run: `self.job.progress(0.4, "note")`, `self.job.step_sync(...)`, `.cancelled`.

        An eager run or a direct call has one without a store: it keeps steps for that run, and nothing else.
        """
        if self.request.job is not None:
            return self.request.job
        if CURRENT.get() is not None or isolated_handler.in_child:
            # No job's ledger would contain the effects of this call, and a retry of its caller would repeat them.
            raise ConfigurationError(
                f"task {self.name} was called as a function by the code of another job, so it has no job of its own; "
                "enqueue it with .delay(…), or give both tasks a plain function to call, which takes the job"
            )
        return eager_job(self, str(uuid4()))

    @property
    def ignores_result(self) -> bool:
        """Whether the return value is not stored."""
        return self.app.conf.task_ignore_result if self.ignore_result is None else self.ignore_result

    # --- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now, without the queue; your own class may wrap each run by overriding this."""
        if ENTERED.get() is not None and ENTERED.get() is RUNNING.get():
            ENTERED.set(None)
            return self.run(*args, **kwargs)
        with running(Request(task=self.name, args=list(args), kwargs=kwargs)):
            return self.run(*args, **kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Let a worker call it with these arguments; the job is on disk when this returns."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> AsyncResult:
        """Let a worker call it, when and where the options say; the job is on disk when this returns."""
        given, named = list(args or ()), dict(kwargs or {})
        self._check_arguments(given, named)
        return self.app.send_task(self.name, given, named, **options)

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Enqueue it once Django's transaction is committed."""
        on_commit(partial(self.delay, *args, **kwargs))

    def apply_async_on_commit(self, *args: Any, **options: Any) -> None:
        """Enqueue it with options once Django's transaction is committed."""
        on_commit(partial(self.apply_async, *args, **options))

    def apply(
        self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, *, throw: bool = False
    ) -> EagerResult:
        """Run it here and now, with its retries, and return its result; `throw` raises its exception."""
        result = run_eagerly(self, list(args or ()), dict(kwargs or {}))
        if throw:
            result.get()
        return result

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return this call to put into a canvas: the previous task's result becomes its first argument."""
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return this call to put into a canvas, with these arguments only."""
        return self.signature(args, kwargs, immutable=True)

    def signature(
        self,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
        **options: Unpack[CallOptions],
    ) -> Signature:
        """Return this call to put into a canvas, with options."""
        return Signature(self.name, args, kwargs, options, immutable=immutable, app=self._app)

    subtask = signature

    def AsyncResult(self, task_id: str) -> AsyncResult:  # noqa: N802 - Celery's name
        """Return the result of one of its runs."""
        return self.app.AsyncResult(task_id)

    def _check_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Raise TypeError here, at the mistake, rather than in a worker."""
        if self.typing:
            inspect.signature(self.run).bind(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("task", name, TASK)

    # --- inside a run

    def retry(  # noqa: PLR0917 - Celery's signature
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,  # noqa: FBT001, FBT002 - Celery's signature
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
    ) -> NoReturn:
        """Stop here and run again later: `raise self.retry(exc=error)`."""
        if args is not None or kwargs is not None or not throw:
            raise ConfigurationError(
                f"task {self.name}: retry(args=, kwargs=, throw=False) does not map to standfast: a job keeps its "
                "payload on every attempt. Enqueue a new run with apply_async(...), and return"
            )
        if self.request.called_directly:
            raise exc or ConfigurationError(f"task {self.name} was called directly, and cannot be retried")
        raise next_retry(self, self.request, exc, countdown=countdown, eta=eta, max_retries=max_retries) from exc

    def update_state(self, *_args: Any, **_meta: Any) -> NoReturn:
        """Refuse: the states are standfast's; use `self.job.progress` for progress."""
        raise ConfigurationError(
            "update_state() does not map to standfast: write self.job.progress(0.4, 'page 4 of 10'), and read it as "
            "`progress` in AsyncResult(id).view"
        )

    # --- hooks for classes of your own

    def before_start(self, task_id: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Run before each attempt."""

    def on_success(self, retval: Any, task_id: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Run after an attempt that returned."""

    def on_failure(self, exc: BaseException, task_id: str, args: list[Any], kwargs: dict[str, Any], einfo: Any) -> None:
        """Run after the attempt that failed for good."""

    def on_retry(self, exc: BaseException, task_id: str, args: list[Any], kwargs: dict[str, Any], einfo: Any) -> None:
        """Run after an attempt that is repeated."""

    def after_return(  # noqa: PLR0917 - Celery's signature
        self, status: str, retval: Any, task_id: str, args: list[Any], kwargs: dict[str, Any], einfo: Any
    ) -> None:
        """Run after an attempt that is the last."""

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"


def make_task(function: Callable[..., Any], options: TaskOptions, main: str, base: type[Task]) -> Task:
    """Make a function a task, of the class in its options, else of `base`."""
    check_options(options)
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"task {function.__name__} is async: Celery does not run it either. Declare it with "
            "@app.sf.handler('queue'), or write def"
        )
    task = checked_class("base=", options.get("base") or base)()
    task.run = function.__get__(task) if options.get("bind") else function
    task.name = options.get("name") or _name_of(function, main)
    task.__doc__ = function.__doc__
    vars(task)["__name__"] = function.__name__
    task.__module__ = function.__module__
    vars(task)["__wrapped__"] = function
    return configured(task, options)


def checked_class(what: str, found: Any) -> type[Task]:
    """Refuse a class whose tasks would not run here, such as one that still extends Celery's own Task."""
    if isinstance(found, type) and issubclass(found, Task):
        return found
    raise ConfigurationError(f"{what} takes a class that extends standfast.celery.Task, not {found!r}")


def configured(task: Task, options: TaskOptions) -> Task:
    """Set the given options; a single exception may stand for a list of them."""
    for name, value in options.items():
        if name in {"autoretry_for", "dont_autoretry_for"}:
            setattr(task, name, tuple(value) if isinstance(value, Iterable) else (value,))
        elif name not in {"name", "base", "typing", *SAYS_WHAT_HOLDS}:
            setattr(task, name, value)
    if "max_retries" in task.retry_kwargs:
        task.max_retries = task.retry_kwargs["max_retries"]
        task.retry_kwargs = {name: each for name, each in task.retry_kwargs.items() if name != "max_retries"}
    return task


def check_options(options: TaskOptions) -> None:
    """Refuse options that cannot be fulfilled, when a task is declared."""
    refuse("task option", options, TASK_OPTIONS, TaskOptions.__annotations__)
    if options.get("time_limit") is not None and "timeout" in options:
        raise ConfigurationError("a task has time_limit= (its process is ended) or timeout= (in a thread), not both")
    for name, (values, why) in SAYS_WHAT_HOLDS.items():
        if name in options and dict(options)[name] not in values:
            raise ConfigurationError(
                f"task option {name}={dict(options)[name]!r} of Celery does not map to standfast: {why}"
            )


def _name_of(function: Callable[..., Any], main: str) -> str:
    module = main if function.__module__ == "__main__" and main else function.__module__
    return f"{module}.{function.__name__}"
