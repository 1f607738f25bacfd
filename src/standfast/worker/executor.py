"""One attempt from claim to settled: claim, run, verify, settle, apply."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Literal

from standfast.asking import asked
from standfast.decide import classify
from standfast.decide.settle import settle, too_old
from standfast.errors import PayloadRejected
from standfast.failure import Class, Failure, Landed, reason
from standfast.handlers.job import Job, enter_session
from standfast.handlers.registry import Handler, Registry
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.outcome import Cancel, Drained, Failed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.queue import payload
from standfast.rules import QueueRules
from standfast.store.store import Store
from standfast.worker.places import with_place
from standfast.worker.signals import from_a_signal
from standfast.worker.telling import tell

log = logging.getLogger("standfast.worker")

LARGEST_RESULT = 1 << 20
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
LAST_WORD = 5.0
"""Seconds a drain waits for an end, of any attempt, before it leaves those behind that were cancelled and go on."""
Cut = Literal["timeout", "drain", "lost", "cancel"]


class Running:
    """A job in this worker's hands, from claim until its end is on disk."""

    __slots__ = ("claim", "cut", "deadline", "is_async", "job", "losses", "rules", "task", "thread")

    def __init__(self, claim: Claim, rules: QueueRules, losses: int) -> None:
        self.losses = losses
        self.claim = claim
        self.rules = rules
        self.job: Job | None = None
        self.task: asyncio.Task[None] | None = None
        self.thread: Future[Any] | None = None
        self.is_async = True
        self.cut: Cut | None = None
        self.deadline: float | None = None


class Executor:
    """Runs claimed jobs and hands their ends to the store in batches. `freed` is told how many slots became free."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        freed: Callable[[Counter[str]], None],
        *,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._registry = registry
        self._freed = freed
        self._roll = roll
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="standfast-handler")
        self._settled: list[Transition] = []
        self._slots_freed: Counter[str] = Counter()
        self._flushes: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_check = float("inf")
        self._context = copy_context()
        self.held: dict[tuple[int, int], Running] = {}
        """Every job claimed here whose end is not on disk yet, by number and token."""
        self._unwritten: set[tuple[int, int]] = set()
        self._left_behind: set[tuple[int, int]] = set()
        self.fenced = 0
        """Ends that landed nowhere, because another worker had taken the job over."""

    # --- starting

    def start(self, claim: Claim, rules: QueueRules) -> None:
        """Begin an attempt, unless the job came too late to be run at all."""
        running = self._take(claim, rules)
        late = too_old(claim, rules, claim.claimed_at)
        if late is not None:
            self._settle(running, late)
            return
        # Each attempt starts from the worker's own context: what one handler sets there must not reach the next.
        running.task = asyncio.get_running_loop().create_task(self._attempt(running), context=self._context.copy())
        if claim.timeout is not None:
            self._watch(running, time.monotonic() + claim.timeout)

    def refuse(self, claim: Claim, rules: QueueRules, why: str) -> None:
        """Give a claim back without entering its handler."""
        running = self._take(claim, rules)
        self._settle(running, settle(claim, NotEntered(why), rules, 0.0))

    def _take(self, claim: Claim, rules: QueueRules) -> Running:
        running = self.held[claim.n, claim.token] = Running(claim, rules, self._store.losses)
        return running

    async def _attempt(self, running: Running) -> None:
        """Bring an attempt to its end, whatever the handler does: without an end it would be running for good."""
        try:
            outcome = await self._run(running)
        except asyncio.CancelledError as error:
            outcome = _cut_short(running.cut, error)
        except BaseException as error:  # the attempt boundary: what a handler raises is an outcome
            if _thrown_away(running, error):
                raise
            if running.is_async and from_a_signal(error):
                self._end(running, Drained())
                raise
            outcome = with_place(classify.of_exception(error), error)
        self._end(running, outcome)

    async def _run(self, running: Running) -> Outcome:
        claim = running.claim
        handler = self._registry.find(claim.queue, claim.handler)
        if handler is None or running.cut is not None:
            return NotEntered(running.cut or "handler_missing")
        try:
            given = handler.read(claim.payload, collected=claim.details.collected)
            running.job = job = Job(claim, running.rules, given)
        except PayloadRejected as error:
            return Misfit(str(error))
        running.is_async = handler.is_async
        enter_session(claim.details.session)
        result = await (handler.function(job) if handler.is_async else self._in_thread(handler, job, running))
        return _returned(handler, job, result)

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
                self.cut(running, "drain")
        result = returned.result()
        if inspect.isawaitable(result):  # a plain function around an async one, as many decorators are
            running.is_async = True
            if running.cut is not None:
                self.cut(running, running.cut)
            result = await result
        return result

    # --- settling

    def _end(self, running: Running, outcome: Outcome) -> None:
        self._settle(running, settle(running.claim, outcome, running.rules, self._roll()))

    def _settle(self, running: Running, transition: Transition) -> None:
        running.deadline = None
        self._slots_freed[running.claim.queue] += 1
        self.hand_in(transition)

    def hand_in(self, transition: Transition) -> None:
        """Queue a decided change for the flush at the end of this turn of the loop."""
        if not self._settled:
            asyncio.get_running_loop().call_soon(self._flush)
        self._settled.append(transition)

    def _flush(self) -> None:
        """Hand the ends to the store; the claims that fill the free slots then share their transaction."""
        transitions, self._settled = self._settled, []
        freed, self._slots_freed = self._slots_freed, Counter()
        self._hand_over(transitions)
        self._freed(freed)

    def _hand_over(self, transitions: list[Transition]) -> None:
        task = asyncio.get_running_loop().create_task(self._apply(transitions))
        self._flushes.add(task)
        task.add_done_callback(partial(self._handed_over, transitions))

    def _handed_over(self, transitions: list[Transition], task: asyncio.Task[None]) -> None:
        """Hand over again what was cut off by stopping the whole loop: an end that is known is written."""
        self._flushes.discard(task)
        if task.cancelled():
            self._hand_over(transitions)

    async def _apply(self, transitions: list[Transition]) -> None:
        transitions = [transition for transition in transitions if self._has_a_place(transition)]
        if not transitions:
            return
        [landed] = await asyncio.gather(self._store.apply(transitions), return_exceptions=True)
        if isinstance(landed, BaseException):
            await self._apply_each(transitions, landed)
            return
        for transition, ok in zip(transitions, landed, strict=True):
            running = self.held.pop((transition.n, transition.token), None)
            if ok and running is not None:
                tell(transition, running.claim.handler, running.claim.max_attempts)
            elif not ok:
                self.fenced += 1
                log.warning(
                    "job %s was taken over; the end of its attempt %d landed nowhere", transition.id, transition.attempt
                )

    def _has_a_place(self, transition: Transition) -> bool:
        """Drop the end of a job whose store is gone: in the new one its number is another job's."""
        running = self.held.get((transition.n, transition.token))
        if running is None or (running.losses == self._store.losses and running.claim.id == transition.id):
            return True
        if running.claim.id == transition.id:
            del self.held[transition.n, transition.token]
        log.error("the end of job %s, %s, is written nowhere: its store is gone", transition.id, transition.move)
        return False

    async def _apply_each(self, transitions: list[Transition], error: BaseException) -> None:
        """Write one by one what could not be written together.

        What cannot be written at all counts as running while this worker lives, and lapses after: giving it back would
        run its effect again.
        """
        if len(transitions) > 1:
            for transition in transitions:
                await self._apply([transition])
            return
        [transition] = transitions
        self._unwritten.add((transition.n, transition.token))
        log.error("the end of job %s, %s, cannot be written", transition.id, transition.move, exc_info=error)

    # --- stopping

    def _watch(self, running: Running, deadline: float) -> None:
        """Have one timer watch the earliest deadline; a timer per job would cost more than the job."""
        running.deadline = deadline
        if deadline < self._next_check:
            self._check_at(deadline)

    def _check_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_check = deadline
        self._timer = asyncio.get_running_loop().call_later(deadline - time.monotonic(), self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Cut what is past its deadline, and watch the next one. A loop with coarse timers may call this early."""
        self._timer, self._next_check = None, float("inf")
        now = time.monotonic()
        for running in list(self.held.values()):
            if running.deadline is not None and running.deadline <= now:
                running.deadline = None
                self.cut(running, "timeout")
        left = [running.deadline for running in self.held.values() if running.deadline is not None]
        if left:
            self._check_at(min(left))

    def cut(self, running: Running, why: Cut) -> None:
        """Stop an attempt: an async handler is cancelled, a plain function keeps its slot until it returns."""
        running.cut = running.cut or why
        if running.job is None or running.task is None or running.task.done():
            return  # not entered yet: it will see the cut and not enter
        running.job.cancelled = True
        if running.is_async:
            running.task.cancel()

    async def finish(self, grace: float) -> None:
        """Let what runs end; after `grace` seconds cut what can be cut, and wait for the rest.

        An async handler that goes on although it was cancelled is left behind: its job lapses with its lease.
        """
        tasks = [running.task for running in self._awaited() if running.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for running in list(self.held.values()):
                if running.task in late:
                    self.cut(running, "drain")
        while self._busy():
            if not await self._something_ends(within=LAST_WORD):
                self._leave_behind_the_stubborn()
        self._threads.shutdown(wait=False)

    def _leave_behind_the_stubborn(self) -> None:
        for running in self._awaited():
            if running.is_async and running.cut is not None and running.task is not None and not running.task.done():
                self._left_behind.add((running.claim.n, running.claim.token))
                log.error(
                    "job %s of handler %s goes on although it was cancelled; it is left to its lease and may run again:"
                    " let the handler end when it gets CancelledError",
                    running.claim.id,
                    running.claim.handler,
                )

    @property
    def left_behind(self) -> bool:
        """Whether a handler that swallows its cancellation outlives this worker."""
        return any(key in self.held for key in self._left_behind)

    def _give_back_unbegun(self) -> None:
        """Give back attempts that were cancelled before their first step, by stopping the whole loop."""
        for running in list(self.held.values()):
            if running.task is not None and running.task.cancelled():
                running.task = None
                self._settle(running, settle(running.claim, NotEntered("drain"), running.rules, 0.0))

    def threads_busy(self) -> bool:
        """Tell whether a plain function still runs; this may be asked on any thread, and after the loop is gone."""
        threads = [running.thread for running in list(self.held.values())]
        return any(thread is not None and not thread.done() for thread in threads)

    def attempt_of(self, task: asyncio.Task[Any]) -> Claim | None:
        """Give the job that a task of the loop runs, if any; this may be asked on any thread."""
        return next((running.claim for running in list(self.held.values()) if running.task is task), None)

    async def idle(self) -> None:
        """Wait until nothing runs and every end is on disk."""
        while self._busy():
            await self._something_ends()

    def _busy(self) -> bool:
        return bool(self._settled or self._awaited())

    def _awaited(self) -> list[Running]:
        """Give what is in this worker's hands and will have an end on disk, as far as anybody knows."""
        return [self.held[key] for key in self.held.keys() - self._unwritten - self._left_behind]

    async def _something_ends(self, within: float | None = None) -> bool:
        """Wait until what runs or is being written has ended; tell whether any of it did in time."""
        self._give_back_unbegun()
        tasks = [running.task for running in self._awaited() if running.task and not running.task.done()]
        if not tasks and not self._flushes:
            await asyncio.sleep(0)
            return True
        done, _ = await asyncio.wait([*tasks, *self._flushes], timeout=within)
        return bool(done)


def _plain(function: Callable[..., Any], job: Job) -> Any:
    try:
        return function(job)
    except StopIteration as error:  # a future refuses it, and would wait for good
        raise RuntimeError("the handler raised StopIteration") from error


def _thrown_away(running: Running, error: BaseException) -> bool:
    """Tell an attempt that Python closes, because its loop is gone, from a handler that raised GeneratorExit itself."""
    task = running.task
    return isinstance(error, GeneratorExit) and task is not None and asyncio.current_task(task.get_loop()) is not task


def _cut_short(cut: Cut | None, error: asyncio.CancelledError) -> Outcome:
    match cut:
        case "drain":
            return Drained()
        case "timeout":
            return TimedOut()
        case "cancel":
            return Failed(UNWANTED)
        case _:
            return classify.of_exception(error)


def _returned(handler: Handler, job: Job, result: Any) -> Outcome:
    """Judge what a handler returned. A result that cannot be kept never fails a finished attempt."""
    if result is None:
        return Succeeded()
    if isinstance(result, Snooze | Cancel | Failed):
        return result
    failed = classify.of_result(result) if handler.soft else None
    if failed is not None:
        return failed
    kept = partial(payload.canonical, result, largest=LARGEST_RESULT)
    return asked(lambda: Succeeded(kept()), partial(_not_kept, job, result))


def _not_kept(job: Job, result: Any, error: Exception) -> Succeeded | Failed:
    unfinished = classify.of_unfinished(result)
    if unfinished is not None:
        return unfinished
    if not isinstance(error, PayloadRejected):  # a result may run code of its own when it is written out
        log.error("the result of job %s cannot be read and is not kept", job.id, exc_info=error)
    return Succeeded(warning="result_not_stored")
