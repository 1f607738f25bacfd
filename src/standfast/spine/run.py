"""The attempt itself: run the handler, judge what came of it. What becomes of the job is decided elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
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
from standfast.outcome import (
    LARGEST_RESULT,
    Cancel,
    Drained,
    Failed,
    Misfit,
    NotEntered,
    Outcome,
    Snooze,
    Succeeded,
    TimedOut,
)
from standfast.rules import QueueRules
from standfast.spine import payload
from standfast.spine.claimed_job import SESSION, ClaimedJob
from standfast.spine.registry import Handler, Registry

log = logging.getLogger("standfast.worker")

UNWANTED = Failure(
    cls=Class.PERMANENT,
    landed=Landed.MAYBE,
    reason_code="cancelled",
    message="it was cancelled while it ran",
    advice=reason("cancelled").advice,
)
"""How an attempt failed that was stopped because its job is no longer wanted."""
MOST_THREADS = 1 << 16
"""Threads for plain functions are made as they are needed; what bounds them is the slots."""
Cut = Literal["timeout", "drain", "lost", "cancel"]


class Running(msgspec.Struct, eq=False):
    """A job in this worker's hands, from claim until its end is on disk."""

    claim: Claim
    rules: QueueRules
    began: float = msgspec.field(default_factory=time.monotonic)
    job: ClaimedJob | None = None
    """What its handler was given; None until it is entered."""
    task: asyncio.Task[Any] | None = None
    thread: Future[Any] | None = None
    is_async: bool = True
    looking: bool = False
    cut: Cut | None = None
    deadline: float | None = None
    span: Any = None
    """The attempt as its trace has it, where traces are on."""

    @property
    def as_it_stands(self) -> Claim:
        """The claim, with what this attempt did to the world."""
        return self.claim if self.job is None else self.job.as_it_stands(self.claim)

    def stop(self, why: Cut) -> None:
        """Stop the attempt: an async handler is cancelled, a plain function keeps its slot until it returns."""
        self.cut = self.cut or why
        if self.task is None or self.task.done() or (self.job is None and not self.looking):
            return  # not entered yet: it will see the cut and not enter
        if self.job is not None:
            self.job.cancelled = True
        if self.is_async:
            self.task.cancel()


class HandlerHooks(msgspec.Struct, frozen=True, kw_only=True):
    """What wings do around a handler. `worker/handler_hooks.py` says which, and in which order."""

    makes_job: Callable[[Claim, QueueRules, Any], ClaimedJob] = ClaimedJob
    """Make the job that the handler is given; the others are given the same."""
    enters: tuple[Callable[[Running, Handler, Any], Awaitable[Outcome | None]], ...] = ()
    """Before a guarded handler is entered: give how the attempt ends if it is not to be."""
    leaves: tuple[Callable[[Any, Failed], Failed], ...] = ()
    """Judge what a handler that failed returned, by what it did to the world."""
    looks_back: Callable[[Running, Handler, Outcome], Awaitable[Outcome]] | None = None
    """After a guarded handler that did not succeed: look whether it did its work all the same."""


class Attempts:
    """Runs handlers. `watched` is told of each attempt with a timeout whose handler is about to be entered."""

    def __init__(self, registry: Registry, around: HandlerHooks, watched: Callable[[Running], None]) -> None:
        self._registry = registry
        self._around = around
        self._watched = watched
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="standfast-handler")

    async def run(self, running: Running) -> Outcome:
        """Run an attempt, unless something that guards its handler says how it ends without that."""
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
                return Misfit(str(error))
        job = self._around.makes_job(claim, running.rules, given)
        SESSION.set(claim.details.session)
        if handler.guarded:
            ended = await self._guarded(running, handler, job)
            if ended is not None:
                return ended
        running.job = job
        running.is_async = handler.is_async
        if claim.timeout is not None:
            self._watched(running)
        result = await (handler.function(job) if handler.is_async else self._in_thread(handler, job, running))
        outcome = _returned(handler, job, result)
        return self._left(job, outcome) if isinstance(outcome, Failed) else outcome

    async def _guarded(self, running: Running, handler: Handler, job: ClaimedJob) -> Outcome | None:
        """Ask everything that guards a handler; give how the attempt ends if it is not to be entered."""
        for enter in self._around.enters:
            ended = await enter(running, handler, job)
            if ended is not None or running.cut is not None:
                return ended or NotEntered(running.cut or "drain")
        return None

    def _left(self, job: ClaimedJob, failed: Failed) -> Failed:
        for leave in self._around.leaves:
            failed = leave(job, failed)
        return failed

    async def look_back(self, running: Running, outcome: Outcome) -> Outcome:
        """Look whether an attempt did its work although its end does not say so; give how it ends, knowing that."""
        handler = self._registry.find(running.claim.queue, running.claim.handler)
        if handler is None or not handler.guarded or running.job is None or self._around.looks_back is None:
            return outcome
        return await self._around.looks_back(running, handler, outcome)

    async def _in_thread(self, handler: Handler, job: ClaimedJob, running: Running) -> Any:
        """Wait until a plain function returns, even when cancelled: a thread cannot be.

        An end that was settled before would let the job run a second time beside it.
        """
        context = copy_context()
        running.thread = self._threads.submit(context.run, _plain, handler.function, job)
        returned = asyncio.wrap_future(running.thread)
        while not returned.done():
            try:
                await asyncio.wait([returned])
            except asyncio.CancelledError:  # the whole loop is being stopped
                running.stop("drain")
        result = returned.result()
        if inspect.isawaitable(result):  # a plain function around an async one, as many decorators are
            running.is_async = True
            if running.cut is not None:
                running.stop(running.cut)
            result = await result
        return result

    def close(self) -> None:
        """Make no more threads."""
        self._threads.shutdown(wait=False)


def _plain(function: Callable[..., Any], job: ClaimedJob) -> Any:
    try:
        return function(job)
    except StopIteration as error:  # a future refuses it, and would wait for good
        raise RuntimeError("the handler raised StopIteration") from error


def thrown_away(running: Running, error: BaseException) -> bool:
    """Tell an attempt that Python closes, because its loop is gone, from a handler that raised GeneratorExit itself."""
    task = running.task
    return isinstance(error, GeneratorExit) and task is not None and asyncio.current_task(task.get_loop()) is not task


def cut_short(cut: Cut | None, error: asyncio.CancelledError) -> Outcome:
    """Judge an attempt that was cancelled, by who did it."""
    match cut:
        case "drain":
            return Drained()
        case "timeout":
            return TimedOut()
        case "cancel":
            return Failed(UNWANTED)
        case _:
            return classify.of_exception(error)


def _returned(handler: Handler, job: ClaimedJob, result: Any) -> Outcome:
    """Judge what a handler returned. A result that cannot be kept never fails a finished attempt."""
    if result is None:
        return Succeeded()
    if isinstance(result, Snooze | Cancel | Failed):
        return result
    if handler.soft and isinstance(result, dict) and not classify.TELLING.isdisjoint(result):
        failed = classify.of_result(result)
        if failed is not None:
            return failed
    if type(result) in payload.JSON_TYPES:
        with suppress(PayloadRejected):  # it may hold typed values further inside, which few do
            return Succeeded(payload.canonical(result, largest=LARGEST_RESULT))
    return call_guarded(lambda: Succeeded(payload.encode_value(result)), partial(_not_kept, job, result))


def _not_kept(job: ClaimedJob, result: Any, error: Exception) -> Succeeded | Failed:
    unfinished = classify.of_unfinished(result)
    if unfinished is not None:
        return unfinished
    if not isinstance(error, PayloadRejected):  # a result may run code of its own when it is written out
        log.error("the result of job %s cannot be read and is not kept", job.id, exc_info=error)
    return Succeeded(warning="result_not_stored")
