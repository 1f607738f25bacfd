"""The steps at which a run can be killed: before and after each commit, handler and effect, by name and number."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, cast

from standfast.application import Standfast
from standfast.application.reception import Enqueue, Reception
from standfast.errors import ConfigurationError
from standfast.job import NewJob, Receipt
from standfast.spine.registry import Function
from standfast.store.engine import Engine
from standfast.store.requests import Reply, Request
from standfast.store.steps import Round
from standfast.testing.nursery import report, reported
from standfast.wings.effects.handler_job import Job


class Step(NamedTuple):
    """The n-th time that something happens in a run, such as `after commit #7`. `note` is no part of its identity."""

    what: str
    nth: int
    note: str = ""

    @property
    def name(self) -> str:
        """The name that selects the step."""
        return f"{self.what} #{self.nth}"

    def __str__(self) -> str:
        """Return the name with its note."""
        return f"{self.name} ({self.note})" if self.note else self.name

    @classmethod
    def read(cls, name: str) -> Step:
        """Parse a name; a note after it is ignored."""
        what, _, nth = name.partition(" (")[0].rpartition(" #")
        if not what or not nth.isdecimal():
            raise ConfigurationError(f'only={name!r} names no step; take one from report.steps, as "after commit #7"')
        return cls(what, int(nth))


def die() -> None:
    """End this process like a power cut: nothing continues, and nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Steps:
    """Counts and records the steps of one process; at the fatal one, calls `end`."""

    def __init__(self, path: Path, fatal: str | None, end: Callable[[], None] = die) -> None:
        self._path = path
        self._fatal = fatal
        self._end = end
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, what: str, note: str = "") -> None:
        """Take a step; other threads wait meanwhile, so that none overtakes the fatal step."""
        with self._lock:
            self._counts[what] += 1
            step = Step(what, self._counts[what], note)
            report(self._path, what=what, nth=step.nth, note=note)
            if step.name == self._fatal:
                self._end()


def read_steps(path: Path) -> list[Step]:
    """Read the steps that a run took, in order."""
    return [Step(**line) for line in reported(path)]


# --- commits


class _WatchedEngine(Engine[Any]):
    """An engine whose commits are steps."""

    step: Steps
    _running = ""

    def _without_room(self, connection: Any, round_: Round, pending: list[Request[Any]]) -> list[Reply]:
        self._running = ", ".join(sorted({request.script.name for request in pending}))
        return super()._without_room(connection, round_, pending)

    def _commit(self, connection: Any) -> None:
        self.step("before commit", self._running)
        super()._commit(connection)  # type: ignore[safe-super]  # the class made below has one
        self.step("after commit", self._running)


def watch_commits(sf: Standfast, step: Steps) -> None:
    """Open the store, and make each of its commits two steps."""
    engine = sf._store._engine  # noqa: SLF001 - the kit's business
    kind = type(engine)
    watched = cast("type[_WatchedEngine]", type(f"Watched{kind.__name__}", (_WatchedEngine, kind), {"step": step}))
    engine.__class__ = watched


# --- what callers are promised


class _WatchedReception(Reception):
    """A reception that records what it promises, just before its caller sees it."""

    promised: Callable[[str], None]

    async def accept(self, job: NewJob, enqueue: Enqueue | None = None) -> Receipt:
        return self._told(await super().accept(job, enqueue))

    async def accept_bulk(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        return [self._told(receipt) for receipt in await super().accept_bulk(jobs)]

    def _told(self, receipt: Receipt) -> Receipt:
        if receipt.id is not None:
            self.promised(receipt.id)
        return receipt


def watch_promises(sf: Standfast, promised: Callable[[str], None]) -> None:
    """Report the id of each accepted job."""
    reception = sf._reception  # noqa: SLF001 - the kit's business
    watched = type("WatchedReception", (_WatchedReception,), {"promised": staticmethod(promised)})
    reception.__class__ = watched


# --- handlers


def watch_handlers(sf: Standfast, step: Steps) -> None:
    """Make each entering and leaving of a handler a step."""
    registry = sf._registry  # noqa: SLF001 - the kit's business
    for handler in [*registry.own.values(), *registry.of_every_queue.values()]:
        inside = partial(_inside, step, handler.name)
        handler.function = (_async if handler.is_async else _plain)(handler.function, inside)


@contextmanager
def _inside(step: Steps, name: str, job: Job) -> Iterator[None]:
    step(f"before handler {name}", f"attempt {job.attempt}")
    try:
        yield
    finally:
        step(f"after handler {name}", f"attempt {job.attempt}")


Inside = Callable[[Job], AbstractContextManager[None]]


def _async(function: Function, inside: Inside) -> Function:
    @wraps(function)
    async def stepped(job: Job) -> Any:
        with inside(job):
            return await function(job)

    return stepped


def _plain(function: Function, inside: Inside) -> Function:
    @wraps(function)
    def stepped(job: Job) -> Any:
        with inside(job):
            return function(job)

    return stepped
