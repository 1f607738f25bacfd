"""One attempt from claim to settled: claim, run, verify, settle, apply."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Literal

from standfast.decide import classify
from standfast.decide.settle import settle, too_old
from standfast.errors import PayloadRejected
from standfast.handlers.job import Job, enter_session
from standfast.handlers.registry import Handler, Registry
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.outcome import Cancel, Drained, Failed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.queue import payload
from standfast.rules import QueueRules
from standfast.store.store import Store

log = logging.getLogger("standfast.worker")

LARGEST_RESULT = 1 << 20
Cut = Literal["timeout", "drain", "lost", "cancel"]


class Running:
    """A job in this worker's hands, from claim until its end is on disk."""

    __slots__ = ("claim", "cut", "deadline", "is_async", "job", "rules", "task")

    def __init__(self, claim: Claim, rules: QueueRules) -> None:
        self.claim = claim
        self.rules = rules
        self.job: Job | None = None
        self.task: asyncio.Task[None] | None = None
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
        threads: int,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._registry = registry
        self._freed = freed
        self._roll = roll
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="standfast-handler")
        self._settled: list[Transition] = []
        self._slots_freed: Counter[str] = Counter()
        self._flushes: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_check = float("inf")
        self._context = copy_context()
        self.held: dict[tuple[int, int], Running] = {}
        """Every job claimed here whose end is not on disk yet, by number and token."""
        self._unwritten: set[tuple[int, int]] = set()
        self.fenced = 0
        """Ends that landed nowhere, because another worker had taken the job over."""

    # --- starting

    def start(self, claim: Claim, rules: QueueRules) -> None:
        """Begin an attempt, unless the job came too late to be run at all."""
        running = self.held[claim.n, claim.token] = Running(claim, rules)
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
        running = self.held[claim.n, claim.token] = Running(claim, rules)
        self._settle(running, settle(claim, NotEntered(why), rules, 0.0))

    async def _attempt(self, running: Running) -> None:
        """Bring an attempt to its end, whatever the handler does: without an end it would be running for good."""
        try:
            outcome = await self._run(running)
        except asyncio.CancelledError as error:
            outcome = _cut_short(running.cut, error)
        except (KeyboardInterrupt, GeneratorExit):
            raise  # the process is being stopped; the lease will tell
        except BaseException as error:  # noqa: BLE001 - the attempt boundary: what a handler raises is an outcome
            outcome = classify.of_exception(error)
        unwanted = running.cut == "cancel"
        self._settle(running, settle(running.claim, outcome, running.rules, self._roll(), unwanted=unwanted))

    async def _run(self, running: Running) -> Outcome:
        claim = running.claim
        handler = self._registry.find(claim.queue, claim.handler)
        if handler is None or running.cut is not None:
            return NotEntered(running.cut or "handler_missing")
        try:
            running.job = job = Job(claim, running.rules, handler.read(claim.payload))
        except PayloadRejected as error:
            return Misfit(str(error))
        running.is_async = handler.is_async
        enter_session(claim.details.session)
        result = await (handler.function(job) if handler.is_async else self._in_thread(handler, job, running))
        return _returned(handler, result)

    async def _in_thread(self, handler: Handler, job: Job, running: Running) -> Any:
        context = copy_context()
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._threads, context.run, _plain, handler.function, job)
        if inspect.isawaitable(result):  # a plain function around an async one, as many decorators are
            running.is_async = True
            if running.cut is not None:
                self.cut(running, running.cut)
            result = await result
        return result

    # --- settling

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
        task = asyncio.get_running_loop().create_task(self._apply(transitions))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)
        self._freed(freed)

    async def _apply(self, transitions: list[Transition]) -> None:
        [landed] = await asyncio.gather(self._store.apply(transitions), return_exceptions=True)
        if isinstance(landed, BaseException):
            await self._apply_each(transitions, landed)
            return
        for transition, ok in zip(transitions, landed, strict=True):
            self.held.pop((transition.n, transition.token), None)
            if not ok:
                self.fenced += 1
                log.warning(
                    "job %s was taken over; the end of its attempt %d landed nowhere", transition.id, transition.attempt
                )

    async def _apply_each(self, transitions: list[Transition], error: BaseException) -> None:
        """Write one by one what could not be written together; what cannot be written at all lapses in its time.

        Such a job counts as running while this worker lives: giving it back would run its effect again.
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
        """Let what runs end; after `grace` seconds cut what can be cut, and wait for the rest."""
        tasks = [running.task for running in self.held.values() if running.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for running in list(self.held.values()):
                if running.task in late:
                    self.cut(running, "drain")
        await self.idle()
        self._threads.shutdown(wait=False)

    async def idle(self) -> None:
        """Wait until nothing runs and every end is on disk."""
        while self._settled or self.held.keys() - self._unwritten:
            under_way = [running.task for running in self.held.values() if running.task and not running.task.done()]
            await asyncio.wait([*under_way, *self._flushes]) if under_way or self._flushes else await asyncio.sleep(0)


def _plain(function: Callable[..., Any], job: Job) -> Any:
    try:
        return function(job)
    except StopIteration as error:  # a future refuses it, and would wait for good
        raise RuntimeError("the handler raised StopIteration") from error


def _cut_short(cut: Cut | None, error: asyncio.CancelledError) -> Outcome:
    match cut:
        case "drain":
            return Drained()
        case "timeout":
            return TimedOut()
        case _:
            return classify.of_exception(error)


def _returned(handler: Handler, result: Any) -> Outcome:
    """Judge what a handler returned. A result that cannot be kept never fails a finished attempt."""
    if result is None:
        return Succeeded()
    if isinstance(result, Snooze | Cancel | Failed):
        return result
    failed = classify.of_result(result) if handler.soft else None
    if failed is not None:
        return failed
    try:
        return Succeeded(payload.canonical(result, largest=LARGEST_RESULT))
    except PayloadRejected:
        return Succeeded(warning="result_not_stored")
