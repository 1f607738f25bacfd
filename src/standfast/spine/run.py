"""Runs one attempt: enters the handler, and turns what it returns or raises into an Outcome.

Nothing is written here. What becomes of the job is decided by `settle` and written by `apply`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Literal

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.errors import PayloadRejected
from standfast.failure import Class, Failure, Landed, classify, reason
from standfast.job import Claim
from standfast.outcome import Cancel, Drained, Failed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.rules import QueueRules
from standfast.spine import payload
from standfast.spine.claimed_job import CURRENT, SESSION, ClaimedJob
from standfast.spine.registry import Handler, Registry

log = logging.getLogger("standfast.worker")

UNWANTED = Failure(
    cls=Class.PERMANENT,
    landed=Landed.MAYBE,
    reason_code="cancelled",
    message="it was cancelled while it ran",
    advice=reason("cancelled").advice,
)
"""The failure of an attempt that was stopped because its job was cancelled."""
MOST_THREADS = 1 << 16
"""Threads for plain functions are started as needed; in practice the worker's slots limit their number."""
Cut = Literal["timeout", "drain", "lost", "cancel"]
Call = Callable[[ClaimedJob], Awaitable[Any]]


class Running(msgspec.Struct, eq=False):
    """A job that this worker holds, from its claim until its end is on disk."""

    claim: Claim
    rules: QueueRules
    began: float = msgspec.field(default_factory=time.monotonic)
    job: ClaimedJob | None = None
    """The job that its handler receives; None until the handler is entered."""
    task: asyncio.Task[Any] | None = None
    thread: Future[Any] | None = None
    is_async: bool = True
    looking: bool = False
    cut: Cut | None = None
    deadline: float | None = None
    span: Any = None
    """The span of the attempt, if tracing is on."""
    error: BaseException | None = None
    """The exception that its handler raised, kept until its end is on disk."""

    @property
    def as_it_stands(self) -> Claim:
        """The claim, with the effects that this attempt has recorded so far."""
        return self.claim if self.job is None else self.job.as_it_stands(self.claim)

    def stop(self, why: Cut) -> None:
        """Stop the attempt. An async handler is cancelled; a plain function keeps its slot until it returns."""
        self.cut = self.cut or why
        if self.task is None or self.task.done() or (self.job is None and not self.looking):
            return  # not entered yet: it will see the cut, and not enter
        if self.job is not None:
            self.job.cancelled = True
        if self.is_async:
            self.task.cancel()


class HandlerHooks(msgspec.Struct, frozen=True, kw_only=True):
    """What wings do around a handler. `worker/handler_hooks.py` says which wings, and in which order."""

    makes_job: Callable[[Claim, QueueRules, Any], ClaimedJob] = ClaimedJob
    """Makes the job that the handler receives; hooks receive it too."""
    enters: tuple[Callable[[Running, Handler, Any], Awaitable[Outcome | None]], ...] = ()
    """Before a guarded handler: each may end the attempt by returning an outcome."""
    leaves: Callable[[Any, Failed], Failed] = lambda _job, failed: failed
    """After a handler that failed: may change the outcome, according to the effects that were recorded."""
    takes_back: Callable[[Handler, Any], None] = lambda _handler, _job: None
    """After a guarded handler, however its attempt ended: takes back what `enters` lent to the job."""
    middleware: Sequence[Callable[[Handler, Call], Call]] = ()
    """Functions that wrap the application's middleware around the call of a handler, the innermost first."""
    looks_back: Callable[[Running, Handler, Outcome], Awaitable[Outcome]] | None = None
    """After a guarded handler that did not succeed: looks whether its effects exist nevertheless."""


class Attempts:
    """Runs handlers. It calls `watched` with each attempt that has a timeout, just before its handler is entered."""

    def __init__(self, registry: Registry, around: HandlerHooks, watched: Callable[[Running], None]) -> None:
        self._registry = registry
        self._around = around
        self._watched = watched
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="standfast-handler")

    async def run(self, running: Running) -> Outcome:
        """Run an attempt. A hook may end it before the handler is entered."""
        claim = running.claim
        handlers = self._registry
        handler = handlers.own.get((claim.queue, claim.handler)) or handlers.of_every_queue.get(claim.handler)
        if handler is None or running.cut is not None:
            return NotEntered(running.cut or "handler_missing")
        given = None
        if handler.input is not None:
            try:
                given = handler.read(claim.payload, collected=claim.details.collected)
            except PayloadRejected as error:
                return Misfit(str(error).removesuffix("; nothing was written"))
        job = self._around.makes_job(claim, running.rules, given)
        SESSION.set(claim.details.session)
        CURRENT.set(job)
        if handler.guarded:
            ended = await self._guarded(running, handler, job)
            if ended is not None:
                return ended
        running.job, running.is_async = job, handler.is_async
        if claim.timeout is not None:
            self._watched(running)
        call: Call = handler.function if handler.is_async else partial(self._in_thread, handler, running)
        for wrap in self._around.middleware:
            call = wrap(handler, call)
        try:
            outcome = judge_return(handler, job, await call(job))
        finally:  # middleware may not have called the handler
            if handler.guarded:
                self._around.takes_back(handler, job)
        return self._around.leaves(job, outcome) if isinstance(outcome, Failed) else outcome

    async def _guarded(self, running: Running, handler: Handler, job: ClaimedJob) -> Outcome | None:
        """Call the hooks of a guarded handler; return the outcome if one of them ends the attempt."""
        for enter in self._around.enters:
            ended = await enter(running, handler, job)
            if ended is not None or running.cut is not None:
                return ended or NotEntered(running.cut or "drain")
        return None

    async def look_back(self, running: Running, outcome: Outcome) -> Outcome:
        """Look whether an attempt that did not succeed had its effects; return its outcome in that light."""
        handler = self._registry.find(running.claim.queue, running.claim.handler)
        if handler is None or not handler.guarded or running.job is None or self._around.looks_back is None:
            return outcome
        return await self._around.looks_back(running, handler, outcome)

    async def _in_thread(self, handler: Handler, running: Running, job: ClaimedJob) -> Any:
        """Run a plain function in a thread, and wait until it returns, even when cancelled: a thread cannot be stopped.

        If the attempt ended before its function did, a second run of the job could overlap with it.
        """
        context = copy_context()
        running.thread = self._threads.submit(context.run, call_plain, handler.function, job)
        returned = asyncio.wrap_future(running.thread)
        while not returned.done():
            try:
                await asyncio.wait([returned])
            except asyncio.CancelledError:  # the whole loop is being stopped
                running.stop("drain")
        for variable in context:  # so that the middleware sees the values the function set
            variable.set(context[variable])
        result = returned.result()
        if inspect.isawaitable(result):  # a plain function that wraps an async one, as many decorators do
            running.is_async = True
            if running.cut is not None:
                running.stop(running.cut)
            result = await result
        return result

    def close(self) -> None:
        """Start no more threads."""
        self._threads.shutdown(wait=False)


def call_plain(function: Callable[..., Any], job: ClaimedJob) -> Any:
    """Call a plain function with its job."""
    try:
        return function(job)
    except StopIteration as error:  # a future refuses StopIteration, so its caller would wait forever
        raise RuntimeError("the handler raised StopIteration") from error


def thrown_away(running: Running, error: BaseException) -> bool:
    """Return whether Python closed this coroutine because its loop is gone. A handler may raise GeneratorExit too."""
    task = running.task
    return isinstance(error, GeneratorExit) and task is not None and asyncio.current_task(task.get_loop()) is not task


def cut_short(cut: Cut | None, error: asyncio.CancelledError) -> Outcome:
    """Return the outcome of an attempt that was cancelled; it depends on who cancelled it."""
    match cut:
        case "drain":
            return Drained()
        case "timeout":
            return TimedOut()
        case "cancel":
            return Failed(UNWANTED)
        case _:
            return classify.of_exception(error)


def judge_return(handler: Handler, job: ClaimedJob, result: Any) -> Outcome:
    """Turn a handler's return value into an outcome. A result that cannot be stored does not fail the attempt."""
    if result is None:
        return Succeeded()
    if isinstance(result, Snooze | Cancel | Failed | Succeeded):
        return result
    if handler.soft and isinstance(result, dict) and not classify.TELLING.isdisjoint(result):
        failed = classify.of_result(result)
        if failed is not None:
            return failed
    if type(result) in payload.JSON_TYPES:
        with suppress(PayloadRejected):  # there may be typed values further inside, which is rare
            return Succeeded(payload.canonical_result(result))
    return call_guarded(lambda: Succeeded(payload.encode_value(result)), partial(_not_kept, job, result))


def _not_kept(job: ClaimedJob, result: Any, error: Exception) -> Succeeded | Failed:
    unfinished = classify.of_unfinished(result)
    if unfinished is not None:
        return unfinished
    if not isinstance(error, PayloadRejected):  # a result may run its own code while it is encoded
        log.error("the result of job %s cannot be read and is not kept", job.id, exc_info=error, extra=job.log_fields)
    return Succeeded(warning="result_not_stored")
