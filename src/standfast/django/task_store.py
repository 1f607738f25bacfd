"""One Standfast object per store, however many threads and backends of this process use it."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.module_loading import import_string

from standfast.application import Standfast, default
from standfast.concurrency.locks import ForkableLock
from standfast.django.failing import tell_if_finished
from standfast.django.options import BackendOptions
from standfast.django.running import run_async, run_plain
from standfast.django.task_payload import ASYNC, HANDLERS, PLAIN, TaskPayload
from standfast.wings.relay.outbox import Outbox

_lock = ForkableLock()
_stores: dict[str, TaskStore] = {}


class TaskStore:
    """A store, its queues whose tasks this process can run, and the databases whose outboxes it relays."""

    def __init__(self, sf: Standfast) -> None:
        self.sf = sf
        self._senders: dict[str, type] = {}
        """By queue: the class of the backend whose tasks run there; it is the sender of Django's signals."""
        self._outboxes: dict[str, Outbox] = {}

    def serve(self, queue: str, sender: type, rules: dict[str, Any] | None = None) -> None:
        """Run a queue's tasks in this process, under these rules."""
        with _lock:
            if queue in self._senders:
                return
            if not self._senders:
                self.sf.on_failure(self._failed)
            self._senders[queue] = sender
        if rules:
            self.sf.queue(queue, **rules)

        @self.sf.handler(queue, name=PLAIN, input=TaskPayload, soft=False)
        def plain(job: Any) -> Any:
            return run_plain(job, sender)

        @self.sf.handler(queue, name=ASYNC, input=TaskPayload, soft=False)
        async def awaited(job: Any) -> Any:
            return await run_async(job, sender)

    async def _failed(self, job: Any, _failure: Any, _error: BaseException | None) -> None:
        if job.log_fields["handler"] in HANDLERS:
            await tell_if_finished(self.sf, self._senders[job.queue], job)

    def outbox(self, database: str) -> Outbox:
        """Return the outbox in one of Django's SQLite databases; every worker in this process relays it, too."""
        with _lock:
            if database not in self._outboxes:
                self._outboxes[database] = self.sf.outbox(partial(_connect, database), with_workers=True)
            return self._outboxes[database]


def store_for(options: BackendOptions) -> TaskStore:
    """Return the store named by the options."""
    key = f"app {options.app}" if options.app else f"url {options.url}"
    make = partial(_import_standfast, options.app) if options.app else partial(_open_standfast, options.url)
    found = _stores.get(key) or TaskStore(make())  # made without the lock: importing an application may call this again
    with _lock:
        return _stores.setdefault(key, found)


def _open_standfast(url: str | None) -> Standfast:
    return default() if url is None else Standfast(url)


def _import_standfast(path: str) -> Standfast:
    found = import_string(path.replace(":", "."))
    if not isinstance(found, Standfast):
        raise ImproperlyConfigured(f"'app' names {path}, which is a {type(found).__name__}, not a Standfast")
    return found


def _connect(database: str) -> Any:
    """Open another connection to one of Django's databases: the relay reads it in a separate thread."""
    wrapper = connections[database].copy()
    return wrapper.get_new_connection(wrapper.get_connection_params())
