"""How a task gets into the store: now, as part of the open transaction, or after its commit."""

from __future__ import annotations

from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction

from standfast.django.options import BackendOptions
from standfast.django.task_store import TaskStore
from standfast.errors import OtherDatabase
from standfast.job import Receipt

POSTGRES = ("postgresql:", "postgres:")


class Enqueuing:
    """Enqueues tasks within or after the transactions of one database."""

    def __init__(self, store: TaskStore, options: BackendOptions) -> None:
        self._store = store
        self._sf = store.sf
        self._options = options

    def enqueue(self, queue: str, payload: dict[str, Any], **given: Any) -> Receipt:
        """Enqueue a task; if a transaction is open, the task exists exactly if that commits."""
        connection = connections[self._options.database]
        if self._options.enqueue == "immediate" or not connection.in_atomic_block:
            return self._sf.enqueue_sync(queue, payload, **given)
        enqueue = partial(self._on_commit, queue, payload, **given)
        if self._options.enqueue == "on_commit":
            return enqueue()
        if has_outbox(connection):
            return self._in_outbox(connection, queue, payload, **given)
        if self._may_be_stores_own(connection):
            try:
                return self._sf.enqueue_sync(queue, payload, tx=connection, **given)
            except OtherDatabase:
                return enqueue()
        return enqueue()

    def _on_commit(self, queue: str, payload: dict[str, Any], **given: Any) -> Receipt:
        """Enqueue it after the commit of the transaction; a crash just then loses it."""
        prepared = self._sf.prepare(queue, payload, **given)
        transaction.on_commit(prepared.store_sync, using=self._options.database)
        return Receipt(prepared.id, "deferred", None)

    def _in_outbox(self, connection: Any, queue: str, payload: dict[str, Any], **given: Any) -> Receipt:
        """Write it into Django's database, and relay it to the store on commit; if this process dies, workers do."""
        receipt = self._sf.enqueue_sync(queue, payload, tx=connection, **given)
        if not any(function == self._relay for _, function, _ in connection.run_on_commit):
            transaction.on_commit(self._relay, using=self._options.database, robust=True)
        return receipt

    def _relay(self) -> None:
        async_to_sync(self._store.outbox(self._options.database).relay)()

    def _may_be_stores_own(self, connection: Any) -> bool:
        """Return whether this can be the store's own database: PostgreSQL over psycopg 3."""
        driver = type(connection.connection).__module__.partition(".")[0]
        return driver == "psycopg" and self._sf.settings.url.value.startswith(POSTGRES)


def has_outbox(connection: Any) -> bool:
    """Return whether tasks go to an outbox: only in SQLite files. In-memory databases, as in tests, survive nothing."""
    return connection.vendor == "sqlite" and not connection.is_in_memory_db()
