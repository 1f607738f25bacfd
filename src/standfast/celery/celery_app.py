"""`Celery`: the object that an application holds, with its tasks, its settings and its store."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Unpack, cast, overload

from standfast import settings
from standfast.application import Standfast
from standfast.celery import beat, calls, canvas_steps, worker_arguments
from standfast.celery.app_conf import Conf
from standfast.celery.call_options import CallOptions, as_enqueue_options
from standfast.celery.canvas import Node, Signature, signature
from standfast.celery.exceptions import NotRegistered
from standfast.celery.remote_control import Control
from standfast.celery.result import AsyncResult
from standfast.celery.task import Task as AnyTask
from standfast.celery.task import TaskOptions, check_options, checked_class, configured, make_task
from standfast.celery.task_arguments import written
from standfast.celery.task_discovery import Packages, discovered
from standfast.celery.task_queues import Registration
from standfast.celery.task_routing import route_for
from standfast.celery.unmapped import APP, missing_attribute
from standfast.concurrency.locks import ForkableLock
from standfast.errors import ConfigurationError

Function = Callable[..., Any]
FOREVER = 1_000_000
"""Attempts of a task with `max_retries=None`."""
STORES = ("sqlite:", "postgresql:", "postgres:", "postgresql+psycopg:")
"""The prefixes of a store's address."""
APPS: list[Celery] = []
"""The apps of this process; the last one is the current one."""
SHARED: list[AnyTask] = []
"""The shared tasks, which every app has."""


class Signal:
    """`app.on_after_configure.connect`: functions that are called once, before the app is first used."""

    def __init__(self) -> None:
        self.receivers: list[Function] = []

    def connect(self, receiver: Function | None = None, **_options: Any) -> Any:
        """Register a function, to be called with the app as `sender`."""
        if receiver is None:
            return self.connect
        self.receivers.append(receiver)
        return receiver


class Celery:
    """A Celery-shaped application on a standfast store.

    The store is `broker=` (`sqlite:///shop.db`, `postgresql://…`), else `$STANDFAST_URL`, else `./standfast.db`. A
    broker of another kind is not contacted, and `$STANDFAST_URL` must then say where the jobs are kept.
    """

    def __init__(
        self,
        main: str | None = None,
        broker: str | None = None,
        backend: str | None = None,
        include: Iterable[str] = (),
        *,
        set_as_current: bool = True,
        config_source: Any = None,
        task_cls: Any = AnyTask,
        **conf: Any,
    ) -> None:
        self.main = main or "celery"
        self.conf = Conf()
        self.control = Control(self)
        self.set_default = self.set_current = partial(_make_newest, self)
        self.tasks: dict[str, AnyTask] = {}
        self.Task = task_cls
        self.on_after_configure = Signal()
        self.on_after_finalize = Signal()
        self._registration: Registration | None = None
        self._making_store = ForkableLock()
        self._discoveries: list[tuple[Packages, str]] = []
        named = {"broker_url": broker, "result_backend": backend, "include": tuple(include)}
        self.conf.update({name: value for name, value in named.items() if value}, **conf)
        if config_source is not None:
            self.config_from_object(config_source)
        if set_as_current:
            APPS.append(self)

    # --- settings

    def config_from_object(self, obj: Any, *, silent: bool = False, namespace: str | None = None) -> None:
        """Read settings from an object, or from its name once they are needed: `"django.conf:settings"`."""
        del silent
        if isinstance(obj, str):
            self.conf.read_later(obj, namespace)
        else:
            self.conf.read(obj, namespace)

    def autodiscover_tasks(self, packages: Packages = None, related_name: str = "tasks") -> None:
        """Import the `tasks` module of each package when the app is first used; by default, of Django's apps."""
        self._discoveries.append((packages, related_name))

    def add_periodic_task(
        self,
        schedule: Any,
        sig: Signature,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> str:
        """Add an entry to the beat schedule; return its name."""
        whole = sig.with_arguments(list(args), dict(kwargs or {}))
        entry = {"task": whole.task, "schedule": schedule, "args": whole.args, "kwargs": whole.kwargs}
        key = name or repr(whole)
        self.conf.beat_schedule = {**(self.conf.beat_schedule or {}), key: {**entry, "options": options}}
        return key

    def beat_entries(self) -> list[beat.Entry]:
        """Return the beat schedule as it is stored."""
        given: dict[str, Any] = self.conf.beat_schedule or {}
        return [beat.entry_of(self, self.main, self.conf.timezone, name, each) for name, each in given.items()]

    # --- tasks

    @overload
    def task(self, function: Function, /, **options: Unpack[TaskOptions]) -> AnyTask: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[TaskOptions]) -> Callable[[Function], AnyTask]: ...
    def task(self, function: Function | None = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(bind=True, max_retries=5)`."""
        check_options(options)
        if function is None:
            return partial(self._new_task, options)
        return self._new_task(options, function)

    @property
    def Task(self) -> type[AnyTask]:  # noqa: N802 - Celery's name
        """The class of tasks that are declared without `base=`; setting it affects tasks declared afterwards."""
        return self._task_class

    @Task.setter
    def Task(self, given: Any) -> None:  # noqa: N802 - Celery's name
        found = pkgutil.resolve_name(given) if isinstance(given, str) else given
        self._task_class = checked_class("app.Task", found)

    def _new_task(self, options: TaskOptions, function: Function) -> AnyTask:
        return self._add(make_task(function, options, self.main, self._task_class))

    def register_task(self, task: AnyTask, **options: Unpack[TaskOptions]) -> AnyTask:
        """Add a task that is an instance of your own class."""
        task.name = task.name or f"{type(task).__module__}.{type(task).__name__}"
        return self._add(configured(task, options))

    def _add(self, task: AnyTask) -> AnyTask:
        task._app = self  # noqa: SLF001 - an app owns its tasks
        self.take(task)
        if task.time_limit is not None or self.conf.task_time_limit is not None:
            self._make_store().queues()  # its child process imports this module, and must find the handler registered
        return task

    def take(self, task: AnyTask) -> None:
        """Let workers of this app run a task, its own or a shared one."""
        if task.awaits_class:
            _give_class(task, self._task_class)
        self.tasks[task.name] = task
        if self._registration is not None:
            self._registration.queues()

    def task_named(self, name: str) -> AnyTask:
        """Return a task of this app."""
        self.finalize()
        if name not in self.tasks:
            raise NotRegistered(name)
        return self.tasks[name]

    # --- calling

    def send_task(
        self,
        name: str,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncResult:
        """Let a worker call a task by its name, even one that only another process has."""
        self.finalize()
        if self.conf.task_always_eager:
            return self._eagerly(name, list(args or ()), dict(kwargs or {}))
        queue, enqueue = self.place(name, options)
        call = {
            "args": written(list(args or ()), f"an argument of {name}"),
            "kwargs": written(dict(kwargs or {}), f"an argument of {name}"),
        }
        receipt = calls.enqueue(self.sf, queue, call, enqueue)
        return AsyncResult(receipt.id or "", app=self)

    def _eagerly(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> AsyncResult:
        result = self.task_named(name).apply(args, kwargs)
        if self.conf.task_eager_propagates:
            result.get()
        return result

    def start_canvas(self, node: Node, options: CallOptions) -> Any:
        """Store a canvas, all of it or nothing; return its result."""
        self.finalize()
        if self.conf.task_always_eager:
            return node.apply()
        if isinstance(node, Signature):
            given: CallOptions = {**node.options, **options}
            return self.send_task(node.task, node.args, node.kwargs, **given)
        return canvas_steps.start(self, node, dict(options))

    def place(self, task: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the queue that a call goes to, and its options for `enqueue`."""
        known = self.tasks.get(task)
        routed = {"priority": route_for(self.conf.task_routes, task).priority}
        own = {} if known is None else {"priority": known.priority, "expires": known.expires}
        asked = {name: value for each in (routed, own) for name, value in each.items() if value is not None}
        asked = {"priority": self.conf.task_default_priority, **asked, **given}
        options = {"handler": task, **as_enqueue_options(asked, self.conf.timezone, self.registration.sf.clock.wall())}
        if known is not None:
            options["attempts"] = attempts_of(known)
        queue = given.get("queue") or self.queue_of(task)
        if known is not None:
            self._check_known(queue, task)
        return queue, options

    def _check_known(self, queue: str, task: str) -> None:
        queues = self.registration.queues()
        if queue not in queues:
            raise ConfigurationError(
                f"task {task} is sent to queue {queue!r}, which no worker of this app serves (it has "
                f"{', '.join(sorted(queues))}); nothing was written: add it to app.conf.task_queues = [{queue!r}]"
            )

    def queue_of(self, task: str) -> str:
        """Return the queue of a task: its own, else from `task_routes`, else the default."""
        known = self.tasks.get(task)
        own = None if known is None else known.queue
        default: str = self.conf.task_default_queue
        return own or route_for(self.conf.task_routes, task).queue or default

    def signature(self, task: Any, *args: Any, **options: Any) -> Signature:
        """Return a call of a task to put into a canvas."""
        return signature(task, *args, app=self, **options)

    def AsyncResult(self, task_id: str) -> AsyncResult:  # noqa: N802 - Celery's name
        """Return the result of a task by its id."""
        return AsyncResult(task_id, app=self)

    # --- the store

    @property
    def sf(self) -> Standfast:
        """The Standfast that stores this app's jobs, with all its features."""
        return self.registration.sf

    def __standfast__(self) -> Standfast:
        """Return the Standfast for `standfast worker app:app` and the other commands."""
        return self.sf

    @property
    def registration(self) -> Registration:
        """Keeps queues and handlers in step with the tasks."""
        made = self._make_store()
        self.finalize()
        made.queues()
        return made

    def _make_store(self) -> Registration:
        with self._making_store:
            if self._registration is None:
                sf = Standfast(self._url())
                sf.on_startup(partial(self._keep_beat, sf))
                self._registration = Registration(self, sf)
            return self._registration

    async def _keep_beat(self, sf: Standfast) -> None:
        """Store the beat schedule, before a worker claims anything."""
        await beat.publish(sf, self.main, self.beat_entries())

    def finalize(self) -> None:
        """Import the modules in the settings, call waiting receivers, and take the shared tasks; once."""
        names = [*self.conf.include, *self.conf.imports]
        while self._discoveries:
            names += discovered(*self._discoveries.pop(0))
        if self.conf.include or self.conf.imports:
            self.conf.update(include=(), imports=())
        for name in names:
            importlib.import_module(name)
        for signal in (self.on_after_configure, self.on_after_finalize):
            while signal.receivers:
                signal.receivers.pop(0)(sender=self)
        for task in SHARED:
            if task.name not in self.tasks:
                self.take(task)

    def _url(self) -> str | None:
        named = [each for each in (self.conf.broker_url, self.conf.result_backend) if each]
        broker: str | None = self.conf.broker_url
        if broker and (broker.startswith(STORES) or _is_file(broker)):
            return broker
        if named and settings.load(None, os.environ).url.source == "default":
            what = "broker" if broker else "result backend"
            raise ConfigurationError(
                f"{what} {settings.without_password(named[0])} is not where standfast keeps jobs, and nothing is sent "
                "to it: set STANDFAST_URL, or write broker='sqlite:///shop.db' or broker='postgresql://…'"
            )
        return None

    def worker_main(self, argv: Iterable[str] | None = None) -> None:
        """Run jobs until signalled, with the options of `celery worker` that apply here."""
        given = worker_arguments.read(argv)
        for queue in given.queues or ():
            self._check_known(queue, "worker_main")
        self.__standfast__().run_worker(given.queues, total=given.concurrency or self.conf.worker_concurrency)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("app", name, APP)

    def __repr__(self) -> str:
        return f"<Celery {self.main}>"


def _is_file(broker: str) -> bool:
    """Distinguish a file, `shop.db` or `:memory:`, from a transport that only Celery knows, such as `memory`."""
    return "://" not in broker and any(sign in broker for sign in "./\\:")


def attempts_of(task: AnyTask) -> int:
    """Return how often a task may be tried: its retries plus one."""
    return FOREVER if task.max_retries is None else task.max_retries + 1


def newest_app() -> Celery:
    """Return the app that was made last."""
    if not APPS:
        raise ConfigurationError("no app was made yet: import the module that has app = Celery(...) first")
    return APPS[-1]


def _give_class(task: AnyTask, kind: type[AnyTask]) -> None:
    """Change a shared task to the first app's task class; its own options stay."""
    task.awaits_class = False
    task.__class__ = kind
    kind.__init__(task)


def _make_newest(app: Celery) -> None:
    """Make this app the current one, as if it had been made last."""
    APPS[:] = [*(each for each in APPS if each is not app), app]


class CurrentApp:
    """Stands for the app that was made last at the time of each use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(newest_app(), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(newest_app(), name, value)

    def __repr__(self) -> str:
        return repr(newest_app())


current_app = cast("Celery", CurrentApp())


@overload
def shared_task(function: Function, /, **options: Unpack[TaskOptions]) -> AnyTask: ...
@overload
def shared_task(function: None = None, /, **options: Unpack[TaskOptions]) -> Callable[[Function], AnyTask]: ...
def shared_task(function: Function | None = None, /, **options: Unpack[TaskOptions]) -> Any:
    """Make a function a task, in a module that knows no app."""
    check_options(options)
    return partial(_share, options) if function is None else _share(options, function)


def _share(options: TaskOptions, function: Function) -> AnyTask:
    task = make_task(function, options, "", APPS[-1].Task if APPS else AnyTask)
    task.awaits_class = not APPS and not options.get("base")
    SHARED.append(task)
    for app in APPS:
        app.take(task)
    return task
