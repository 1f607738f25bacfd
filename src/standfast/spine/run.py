"""The attempt itself: look, run the handler, judge what came of it. What becomes of the job is decided elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from standfast.concurrency.guarded import asked
from standfast.errors import PayloadRejected, StoreUnavailable
from standfast.failure import Class, Failure, Landed, classify, reason
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.outcome import Cancel, Drained, Failed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.rules import QueueRules
from standfast.spine import payload
from standfast.spine.error_place import with_place
from standfast.spine.handler_job import Job, enter_session
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.wings.consent.verbs import consented
from standfast.wings.effects.ledger import Ledger
from standfast.wings.effects.rules import (
    Scope,
    after_doubt,
    before_repeat,
    closes,
    in_doubt,
    resumes,
    scope,
    with_looks,
)
from standfast.wings.effects.verbs import Seen, Verifier, keep

log = logging.getLogger("standfast.worker")

UNWANTED = Failure(
    cls=Class.PERMANENT,
    landed=Landed.MAYBE,
    reason_code="cancelled",
    message="it was cancelled while it ran",
    advice=reason("cancelled").advice,
)
"""How an attempt failed that was stopped because its job is not wanted any more."""
MOST_THREADS = 1 << 16
"""Threads for plain functions are made as they are needed; what bounds them is the slots."""
Cut = Literal["timeout", "drain", "lost", "cancel"]


class Running:
    """A job in this worker's hands, from claim until its end is on disk."""

    __slots__ = (
        "began",
        "claim",
        "cut",
        "deadline",
        "is_async",
        "job",
        "looking",
        "rules",
        "span",
        "task",
        "thread",
    )

    def __init__(self, claim: Claim, rules: QueueRules) -> None:
        self.began = time.monotonic()
        self.claim = claim
        self.rules = rules
        self.job: Job | None = None
        self.task: asyncio.Task[Transition] | None = None
        self.thread: Future[Any] | None = None
        self.is_async = True
        self.looking = False
        self.cut: Cut | None = None
        self.deadline: float | None = None
        self.span: Any = None
        """The attempt as its trace has it, where traces are on."""

    @property
    def as_it_stands(self) -> Claim:
        """The claim, with what this attempt did to the world."""
        ledger = None if self.job is None else self.job.begun_ledger
        if ledger is None:
            return self.claim
        return replace(self.claim, ledger=ledger.entries, progressed=int(ledger.progressed))

    def stop(self, why: Cut) -> None:
        """Stop the attempt: an async handler is cancelled, a plain function keeps its slot until it returns."""
        self.cut = self.cut or why
        if self.task is None or self.task.done() or (self.job is None and not self.looking):
            return  # not entered yet: it will see the cut and not enter
        if self.job is not None:
            self.job.cancelled = True
        if self.is_async:
            self.task.cancel()


Entered = Callable[[Running], None]


class Attempts:
    """Runs handlers. `entered` is told of each attempt whose handler is about to be entered; `fetch` reads results."""

    def __init__(
        self, store: Store, registry: Registry, verifier: Verifier, entered: Entered, fetch: Callable[[int], str | None]
    ) -> None:
        self._store = store
        self._registry = registry
        self._verifier = verifier
        self._entered = entered
        self._fetch = fetch
        self._begin_ledger = partial(_ledger, store)
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="standfast-handler")

    async def run(self, running: Running) -> Outcome:
        """Run an attempt, unless a look shows that there is nothing to run, or that nobody can tell."""
        claim = running.claim
        handler = self._registry.find(claim.queue, claim.handler)
        if handler is None or running.cut is not None:
            return NotEntered(running.cut or "handler_missing")
        try:
            given = handler.read(claim.payload, collected=claim.details.collected)
            job = Job(claim, running.rules, given, fetch=self._fetch, begin_ledger=self._begin_ledger)
        except PayloadRejected as error:
            return Misfit(str(error))
        enter_session(claim.details.session)
        if handler.has_effects:
            ended = await self._with_effects(running, handler, job)
            if ended is not None:
                return ended
        if handler.declaration.consent:
            refused = await consented(self._store, claim)
            if refused is not None or running.cut is not None:
                return refused or NotEntered(running.cut or "drain")
        running.job = job
        running.is_async = handler.is_async
        self._entered(running)
        result = await (handler.function(job) if handler.is_async else self._in_thread(handler, job, running))
        return _meant(job.begun_ledger, _returned(handler, job, result))

    async def _with_effects(self, running: Running, handler: Handler, job: Job) -> Outcome | None:
        """Look before a repeat, and give the job its ledger; give how the attempt ends if it is not to run."""
        wanted = scope(running.claim)
        if wanted != "none":
            seen = await self._looked(running, handler, job, wanted)
            if seen is None or running.cut is not None:
                return NotEntered(running.cut or "drain")
            resumed = resumes(handler.declaration.when_landed, running.claim.ledger)
            ended = before_repeat(seen.looks, complete=wanted == "all" and not resumed)
            kept_out = ended or await self._keep(running, seen)
            if kept_out is not None:
                return kept_out
        declared: list[str] | Failed = asked(lambda: _names(handler, job), _unknown_effects)
        if isinstance(declared, Failed):
            return declared
        job.keep(_ledger(self._store, running.claim, declared))
        return None

    async def _keep(self, running: Running, seen: Seen) -> NotEntered | None:
        """Keep what a look saw before the handler is entered, which then finds it in its ledger."""
        claim = running.claim
        try:
            owned = await keep(self._store, claim, seen)
        except StoreUnavailable:
            return NotEntered("store_unavailable")
        progressed = claim.progressed or int(closes(claim.ledger, seen.looks))
        running.claim = replace(claim, ledger=with_looks(claim.ledger, seen.looks) or None, progressed=progressed)
        return None if owned and running.cut is None else NotEntered(running.cut or "lost")

    async def _looked(self, running: Running, handler: Handler, job: Job, wanted: Scope) -> Seen | None:
        """Look at the effects of a job; None if that was cut off, with the handler not entered."""
        running.looking = True
        try:
            return await self._verifier.look(handler, job, running.claim.ledger, wanted)
        except asyncio.CancelledError:
            return None
        finally:
            running.looking = False

    async def look_back(self, running: Running, outcome: Outcome) -> Outcome:
        """Look whether an attempt did its work although its end does not say so; give how it ends, knowing that."""
        claim, job = running.as_it_stands, running.job
        handler = self._registry.find(claim.queue, claim.handler)
        if handler is None or job is None or not handler.has_effects or not in_doubt(outcome):
            return outcome
        running.looking = True
        try:
            seen = await self._verifier.look(handler, job, claim.ledger)
        except asyncio.CancelledError:  # nobody waits for the answer any more
            return outcome
        finally:
            running.looking = False
        resumed = resumes(handler.declaration.when_landed, claim.ledger)
        return after_doubt(claim, outcome, seen.looks, resumed=resumed)

    async def _in_thread(self, handler: Handler, job: Job, running: Running) -> Any:
        """Wait until a plain function returns, whoever is cancelled meanwhile: no thread can be.

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


def _plain(function: Callable[..., Any], job: Job) -> Any:
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


def _ledger(store: Store, claim: Claim, declared: Sequence[str] = ()) -> Ledger:
    return Ledger(store, claim, payload.kept, declared)


def _names(handler: Handler, job: Job) -> list[str] | Failed:
    return [effect.name for effect in handler.effects_of(job)[0]]


def _unknown_effects(error: Exception) -> list[str] | Failed:
    """Judge a job whose effects could not be found out: its handler was not entered."""
    failed = with_place(classify.of_exception(error), error)
    message = f"its effects could not be found out: {failed.failure.told}"
    return Failed(replace(failed.failure, landed=Landed.NO, message=message), said=True)


def _returned(handler: Handler, job: Job, result: Any) -> Outcome:
    """Judge what a handler returned. A result that cannot be kept never fails a finished attempt."""
    if result is None:
        return Succeeded()
    if isinstance(result, Snooze | Cancel | Failed):
        return result
    failed = classify.of_result(result) if handler.soft else None
    if failed is not None:
        return failed
    return asked(lambda: Succeeded(payload.kept(result)), partial(_not_kept, job, result))


def _meant(ledger: Ledger | None, outcome: Outcome) -> Outcome:
    """Have the doubts of a handler about its own effects name those that it declares."""
    if ledger is None or not isinstance(outcome, Failed):
        return outcome
    return replace(outcome, doubts=ledger.meant(outcome.doubts))


def _not_kept(job: Job, result: Any, error: Exception) -> Succeeded | Failed:
    unfinished = classify.of_unfinished(result)
    if unfinished is not None:
        return unfinished
    if not isinstance(error, PayloadRejected):  # a result may run code of its own when it is written out
        log.error("the result of job %s cannot be read and is not kept", job.id, exc_info=error)
    return Succeeded(warning="result_not_stored")
