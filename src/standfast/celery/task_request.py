"""`self.request`: the run that a task is in, and the call that it came from."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from standfast.celery.unmapped import REQUEST, missing_attribute
from standfast.wings.effects.handler_job import Job

Takes = str | list[Any]
"""Which steps give a task its first argument: one by its name, or a list of them (of lists of them)."""
EVERY = "*"
"""Stands for the list of all steps before this one, in their order: a chord may have thousands."""


class TaskCall(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of a task: what it is called with, and whose results come first."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    takes: Takes | None = None
    feeds: bool = False
    """Whether another step is given its result: then it must be one that can be kept."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a task, under Celery's names. A call without a queue has no id."""

    task: str = ""
    id: str | None = None
    retries: int = 0
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    queue: str | None = None
    called_directly: bool = True
    is_eager: bool = False
    job: Job | None = None

    @property
    def about(self) -> tuple[str, list[Any], dict[str, Any]]:
        """What the hooks of a task are told about it."""
        return self.id or "", self.args, self.kwargs

    @property
    def hostname(self) -> str:
        """Where it runs."""
        return socket.gethostname()

    @property
    def delivery_info(self) -> dict[str, Any]:
        """The queue it came through, and whether an earlier run may have had its effect."""
        again = self.job is not None and self.job.attempt > 1
        return {"routing_key": self.queue, "redelivered": again}

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("self.request", name, REQUEST)


RUNNING: ContextVar[Request | None] = ContextVar("standfast_celery_request", default=None)
"""The run that this code is in."""

ENTERED: ContextVar[Request | None] = ContextVar("standfast_celery_entered", default=None)
"""The run whose task is called next: that call is the run itself, and a further one in it is a direct call."""


@contextmanager
def running(request: Request) -> Iterator[None]:
    """Have `self.request` be this one in the block."""
    token = RUNNING.set(request)
    try:
        yield
    finally:
        RUNNING.reset(token)


def step_name(number: int, task: str) -> str:
    """Name a step of a canvas."""
    return f"{number} {task}"


def step_number(name: str) -> int:
    """Give the place of a step in its canvas."""
    return int(name.partition(" ")[0])


def id_of_task(job: Job) -> str:
    """Give the id that the task's caller knows: the one it chose, else the job's."""
    return job.id if job.idempotency_key == job.identity else job.idempotency_key
