"""The job as its handler sees it: with its effects, its steps, and the results of earlier workflow steps."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

import msgspec

from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.spine.claimed_job import ClaimedJob
from standfast.wings.effects.block import Block
from standfast.wings.effects.ledger import Ledger, undeclared
from standfast.wings.effects.values import digest
from standfast.wings.workflows.parents import Fetch, Parents

if TYPE_CHECKING:
    import typing_extensions

    T = typing_extensions.TypeVar("T", default=Any)
else:
    T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class JobServices(NamedTuple):
    """What a job uses for its handler: its ledger, progress reports, and results too big to come with the job."""

    begin_ledger: Callable[[Claim], Ledger] | None = None
    fetch: Fetch | None = None
    report: Callable[[Claim, float, str | None], None] | None = None
    """Takes the progress that an attempt reports."""
    add_to_end: Callable[[Transition], Transition] | None = None
    """Adds reported progress that is not written yet to the end of the attempt."""


class Job(ClaimedJob, Generic[T]):
    """One attempt at a job. `cancelled` turns true when the attempt should stop: check it in long loops.

    `input` is the payload as T: `async def send(job: Job[Mail])`. If a queue collects (`coalesce="collect"`), jobs
    with a thread key have a list of payloads in `payload`, even if only one came, and a list of inputs in `input`:
    write `Job[list[Mail]]` there, and `input=Mail`.
    """

    _ledger: Ledger | None = None
    _keeper: JobServices | None
    input: T
    add_to_end: Callable[[Transition], Transition] | None = None
    child: Any = None
    """The process that is to run the job, if its handler is isolated; None once the handler is called."""

    @property
    def handler(self) -> str:
        """The name of the handler that runs it; for a Celery task, the task's name."""
        return self._claim.handler

    @cached_property
    def parents(self) -> Parents:
        """The results of the workflow steps that this one comes after, by name; empty for other jobs."""
        return Parents(self._claim.parents or {}, self._keeper and self._keeper.fetch)

    def effect(self, name: str) -> Block:
        """Open a block around one declared effect: `async with job.effect("ticket") as e:`; `with` in a plain function.

        The intent is on disk before the block is entered. If `e.done` is true, an earlier attempt did it and recorded
        `e.receipt`: skip it. Hand `e.key` to the receiver; it is the same on every attempt. `e.record(receipt)` keeps
        the result; leaving the block without it counts as done, leaving it by an exception as possibly done, unless
        that is `Transient` or `Permanent`.
        """
        if self._ledger is None:
            raise undeclared(name, self._claim.handler, self.queue, ())
        return self._ledger.block(name)

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Report how far this attempt is: the share that is done, from 0 to 1, and a few words for people.

        It never waits, in async and in plain functions alike; call it as often as you like. Of several calls within a
        second the last is kept, and so is the last call of the attempt. `status` shows it, as do REST, the dashboard
        and the command line.
        """
        if self._keeper is not None and self._keeper.report is not None:
            self.add_to_end = self._keeper.add_to_end
            self._keeper.report(self._claim, fraction, note)

    @overload
    def once(
        self, name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def once(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    def once(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, plain or async, for one declared effect; later attempts get what it returned then.

        The returned value is kept as JSON (dataclasses, msgspec and pydantic models too, up to 1 MiB) and read back by
        the function's return annotation, even the first time; without one you get plain JSON. A value that cannot be
        kept raises ValueNotKept. The same name with other arguments is another call.
        """
        _check_callable(name, function, "await job.once")
        _check_loop("once")
        return _call(self.ledger.call(name, digest(function, args, kwargs), declared=True), function, args, kwargs)

    def once_sync(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what `once` does, in a handler that is a plain function."""
        _check_callable(name, function, "job.once_sync")
        block = self.ledger.call(name, digest(function, args, kwargs), declared=True)
        return cast("R", _call_function(block, function, args, kwargs))

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def step(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, plain or async, and keep what it returned; a later attempt gets that value without a call.

        It works like `once`, but you choose any name and declare nothing. If an attempt ends while the function runs,
        the next attempt calls it again: declare an effect for anything that must not be done twice. An attempt that
        completes a step does not count against `attempts`.
        """
        _check_callable(name, function, "await job.step")
        _check_loop("step")
        return _call(self.ledger.call(name, digest(function, args, kwargs), declared=False), function, args, kwargs)

    def step_sync(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what `step` does, in a handler that is a plain function."""
        _check_callable(name, function, "job.step_sync")
        block = self.ledger.call(name, digest(function, args, kwargs), declared=False)
        return cast("R", _call_function(block, function, args, kwargs))

    @property
    def ledger(self) -> Ledger:
        """The ledger of this attempt, for built-in handlers; others use `effect`, `once` and `step`.

        A handler that declares no effects gets one with its first step.
        """
        if self._ledger is None:
            if self._keeper is None or self._keeper.begin_ledger is None:
                raise undeclared("", self._claim.handler, self.queue, ())
            self._ledger = self._keeper.begin_ledger(self._claim)
        return self._ledger

    @property
    def begun_ledger(self) -> Ledger | None:
        """The ledger of this attempt, if it has one yet."""
        return self._ledger

    def keep(self, ledger: Ledger) -> None:
        """Set the ledger of this attempt."""
        self._ledger = ledger

    @property
    def handed_over(self) -> Claim:
        """The claim with what this attempt did so far, for a process that runs the handler in place of this one."""
        return self.as_it_stands(self._claim)

    def fetch_result(self, step: int) -> str | None:
        """Read the result of an earlier step of its workflow, as JSON text."""
        return None if self._keeper is None or self._keeper.fetch is None else self._keeper.fetch(step)

    def with_payload(self, payload: Any, input: Any = None) -> Job:
        """Return this job as if it had another payload, for checks of an operation that it only wraps."""
        text = msgspec.json.encode(payload).decode()
        reads = JobServices(fetch=self._keeper and self._keeper.fetch)
        return Job(msgspec.structs.replace(self._claim, payload=text), self.rules, input, reads)


async def _call(block: Block, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    async with block as effect:
        if not effect.done:
            result = function(*args, **kwargs)
            effect.record(await result if inspect.isawaitable(result) else result)
    return effect.returned(function)


def _call_function(block: Block, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with block as effect:
        if not effect.done:
            effect.record(function(*args, **kwargs))
    return effect.returned(function)


def _check_loop(call: str) -> None:
    """Refuse an awaitable call in a plain function, which would never await it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise TypeError(f"this handler is a plain function: write job.{call}_sync, which does not need await") from None


def _check_callable(name: str, function: object, call: str) -> None:
    """Refuse the result of a call in place of the function, before an intent is written for it."""
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()  # otherwise Python would warn of the same mistake
        raise TypeError(
            f"write {call}({name!r}, function, arguments…): it calls the function itself, and only if it must run"
        )
