"""A task with standfast's options, beyond Django's own interface."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from standfast.django.tasks_framework import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class StandfastTask(Task):
    """`task.using(idempotency_key="order-7").enqueue(7)` enqueues once, however often it is called."""

    idempotency_key: str | None = None
    """The same key returns the existing task."""
    thread_key: str | None = None
    """Tasks of one thread never run side by side."""
    attempts: int | None = None
    """How often it is tried; the default is the queue's rule."""

    def using(
        self,
        *,
        idempotency_key: str | None = None,
        thread_key: str | None = None,
        attempts: int | None = None,
        **changes: Any,
    ) -> StandfastTask:
        """Return a copy of this task with other settings."""
        own: dict[str, Any] = {"idempotency_key": idempotency_key, "thread_key": thread_key, "attempts": attempts}
        changed: StandfastTask = Task.using(self, **changes)
        return replace(changed, **{name: value for name, value in own.items() if value is not None})

    @property
    def own_options(self) -> dict[str, Any]:
        """The options for `sf.enqueue` beyond those of every task."""
        own = {name: getattr(self, name) for name in ("idempotency_key", "thread_key", "attempts")}
        return {name: value for name, value in own.items() if value is not None}
