"""`self.request`: the current run of a task, and the call behind it."""

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
"""The steps whose results are a task's first argument: one name, or a list of names (or of lists)."""
EVERY = "*"
"""Stands for the list of all steps before this one, in order: a chord may have thousands."""


class TaskCall(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of a task: its arguments, and the steps whose results come first."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    takes: Takes | None = None
    feeds: bool = False
    """Whether another step takes its result, which must then be storable."""


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
        """The arguments that a task's hooks get about the run."""
        return self.id or "", self.args, self.kwargs

    @property
    def hostname(self) -> str:
        """The name of this host."""
        return socket.gethostname()

    @property
    def delivery_info(self) -> dict[str, Any]:
        """The queue of the run, and whether an earlier attempt may already have had its effect."""
        again = self.job is not None and self.job.attempt > 1
        return {"routing_key": self.queue, "redelivered": again}

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("self.request", name, REQUEST)


RUNNING: ContextVar[Request | None] = ContextVar("standfast_celery_request", default=None)
"""The run that the current code belongs to."""

ENTERED: ContextVar[Request | None] = ContextVar("standfast_celery_entered", default=None)
"""The run whose task is called next: that call is the run itself, and any call inside it is a direct call."""


@contextmanager
def running(request: Request) -> Iterator[None]:
    """Make this request the `self.request` of the block."""
    token = RUNNING.set(request)
    try:
        yield
    finally:
        RUNNING.reset(token)


def step_name(number: int, task: str) -> str:
    """Name a step of a canvas."""
    return f"{number} {task}"


def step_number(name: str) -> int:
    """Return the number of a step in its canvas."""
    return int(name.partition(" ")[0])


def id_of_task(job: Job) -> str:
    """Return the id that the task's caller knows: the one it chose, else the job's."""
    return job.id if job.idempotency_key == job.identity else job.idempotency_key
