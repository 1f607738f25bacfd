"""Runs attempts from claim to end (look, run, settle, apply), and stops them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any

from standfast.failure import classify
from standfast.failure.error_place import with_place
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.outcome import Drained, NotEntered, Outcome, Succeeded
from standfast.printable import span
from standfast.rules import QueueRules
from standfast.spine.claimed_job import CURRENT, SESSION
from standfast.spine.registry import Registry
from standfast.spine.run import Attempts, Cut, Running, cut_short, thrown_away
from standfast.spine.settle import age_reason
from standfast.store.store import Store
from standfast.telemetry import Tracing
from standfast.wings.approvals.rules import filed
from standfast.wings.effects.verbs import Verifier
from standfast.wings.jobs.scripts import OverdueAttempt, note_overdue
from standfast.wings.limits.breaker import dependency_answered
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.wings.tracebacks.rules import with_traceback
from standfast.worker.ends import Ends, Key
from standfast.worker.failure_calls import FailureCalls
from standfast.worker.handler_hooks import handler_hooks
from standfast.worker.middleware import Middleware
from standfast.worker.settling import settle, too_old
from standfast.worker.signals import from_a_signal
from standfast.worker.stopwatch import Stopwatch
from standfast.worker.traced_attempt import Run, Spans, Whole

log = logging.getLogger("standfast.worker")

LONGEST_TURN = 0.002
"""Seconds after which attempts that never wait yield to the event loop."""
GOES_ON = 5.0
"""Seconds an async handler gets to end after it was cancelled at its timeout; then it is noted as overdue."""
LAST_WORD = 5.0
"""Seconds a drain waits for any attempt to end before it leaves behind those that ignored their cancellation."""


class Executor:
    """Runs claimed jobs and hands their ends to the store in batches. `freed` is called with the slots freed."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        verifier: Verifier,
        freed: Callable[[Counter[str]], None],
        *,
        owner: str = "",
        policy: KnownPolicy | None = None,
        looks_back: bool = False,
        doubted: Callable[[str, str], None] | None = None,
        tracing: Tracing | None = None,
        middleware: Middleware | None = None,
        halt: Callable[[], None] = lambda: None,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._attempts = Attempts(
            registry, handler_hooks(store, verifier, () if middleware is None else middleware), self._watch
        )
        self.stopwatch = Stopwatch(owner)
        self.failure_calls = FailureCalls(store, registry.failure_hooks)
        self.ends = Ends(store, freed, self.stopwatch, self.failure_calls)
        self.held: dict[Key, Running] = self.ends.held
        """Every job claimed here whose end is not on disk yet, by number and token."""
        self._halt = halt
        """Stops claiming when a signal raised an exception in a handler: the loop is about to end."""
        self._policy = policy or KnownPolicy()
        self._doubted = doubted
        """Called with the queue and name of a handler whose attempt got no answer from a dependency."""
        self._looks_back = looks_back
        """Whether a caller waits for each end: then an uncertain outcome is verified before it is settled."""
        self._roll = roll
        self._timer: asyncio.TimerHandle | None = None
        self._next_check = float("inf")
        self._context = copy_context()
        self._left_behind: set[Key] = set()
        self._unbegun: deque[Running] = deque()
        self._beginning = False
        self._turns = 0
        """How many turns the loop made while attempts began: an attempt during which it made one has waited."""
        self._beginner: asyncio.Task[None] | None = None
        spans = None if tracing is None else Spans(tracing)
        self._run: Run = self._attempts.run if spans is None else spans.run_in_span(self._attempts.run)
        self._whole: Whole = self._attempt if spans is None else spans.around(self._attempt)

    @property
    def fenced(self) -> int:
        """How many ends changed nothing, because another worker had taken the job over."""
        return self.ends.fenced

    @property
    def unwritten(self) -> tuple[str, ...]:
        """The handlers, as queue/handler, of jobs whose end could not be written. Any thread may read this."""
        claims = [self.held[key].claim for key in [*self.ends.unwritten] if key in self.held]
        return tuple(sorted({f"{claim.queue}/{claim.handler}" for claim in claims}))

    def hand_in(self, transition: Transition) -> None:
        """Write a decided change together with the ends of attempts."""
        self.ends.hand_in(transition)

    # --- starting

    def start(self, claim: Claim, rules: QueueRules) -> None:
        """Begin an attempt in this turn of the loop or the next, unless the job came too late to be run at all."""
        running = self.held[claim.n, claim.token] = Running(claim, rules)
        if (claim.expires_at is not None or rules.max_age is not None) and age_reason(
            claim.entered_at, claim.expires_at, rules.max_age, claim.claimed_at
        ):
            self._end_unentered(running)
            return
        self._unbegun.append(running)
        if not self._beginning:
            self._beginning = True
            self._begin()

    def _begin(self) -> None:
        """In each turn of the loop, start a task that begins claimed jobs; it continues as long as no attempt waits.

        A task for each attempt would cost more than many attempts do. Each task starts from the worker's own context:
        a variable that one handler sets there must not reach the next.
        """
        if self._beginner is not None and self._beginner.cancelled():  # the whole loop is being stopped
            self._give_back_unbegun()
        self._turns += 1
        if not self._unbegun:
            self._beginning, self._beginner = False, None
            return
        loop = asyncio.get_running_loop()
        self._beginner = loop.create_task(self._begin_several(self._turns), context=self._context.copy())
        loop.call_soon(self._begin)

    async def _begin_several(self, turn: int) -> None:
        """Run attempts one after the other until one waits: from then on this task belongs to that attempt alone."""
        task: Any = asyncio.current_task()
        SESSION.set(None)  # as every attempt without a session does: any other difference was made by a handler
        CURRENT.set(None)
        clean, until = copy_context(), time.monotonic() + LONGEST_TURN
        while self._unbegun:
            running = self._unbegun.popleft()
            running.task = task
            await self._whole(running)
            if self._turns != turn:
                return
            running.task = None
            CURRENT.set(None)
            if task.cancelling() or copy_context() != clean or time.monotonic() > until:
                return

    def _end_unentered(self, running: Running) -> None:
        """End a job that came too late to be run."""
        claim = running.claim
        late = too_old(claim, running.rules, claim.claimed_at, self._roll(), self._policy.policy_now(self._store))
        if late is not None:
            self.ends.settle(running, self._with_filing(claim, late))

    def refuse(self, claim: Claim, rules: QueueRules, why: str) -> None:
        """Give a claim back without entering its handler."""
        running = self.held[claim.n, claim.token] = Running(claim, rules)
        self.ends.settle(running, settle(claim, NotEntered(why), rules, 0.0))

    def refuse_all(self, claims: Iterable[Claim], rules: Mapping[str, QueueRules]) -> None:
        """Give claims back because the worker's loop may be about to end."""
        for claim in claims:
            self.refuse(claim, rules[claim.queue], "drain")

    async def _attempt(self, running: Running) -> Transition:
        """Bring an attempt to an end, whatever the handler does: otherwise its job would count as running forever."""
        try:
            outcome = await self._run(running)
        except asyncio.CancelledError as error:
            running.error = error
            outcome = cut_short(running.cut, error)
        except BaseException as error:  # the attempt boundary: any exception of a handler is an outcome
            if thrown_away(running, error):
                raise
            if running.is_async and from_a_signal(error):
                self._halt()  # first: a loop that is ending must not claim again the job it gives back
                self._end(running, Drained())
                raise
            running.error = error
            outcome = with_place(classify.of_exception(error), error)
        if self._looks_back:
            outcome = await self._attempts.look_back(running, outcome)
        return self._end(running, outcome)

    def _end(self, running: Running, outcome: Outcome) -> Transition:
        claim, roll, add_to_end = running.claim, self._roll(), None
        if running.job is not None:
            claim, add_to_end = running.job.as_it_stands(claim), running.job.add_to_end
        if isinstance(outcome, Succeeded):  # most attempts succeed, and those need no policy
            end = settle(claim, outcome, running.rules, roll)
            end = end if add_to_end is None else add_to_end(end)
            self.ends.settle(running, end)
            return end
        if self._doubted is not None and dependency_answered(outcome) is False:
            self._doubted(claim.queue, claim.handler)
        end = settle(claim, outcome, running.rules, roll, self._policy.policy_now(self._store))
        end = with_traceback(self._with_filing(claim, end), running.error)
        end = end if add_to_end is None else add_to_end(end)
        self.ends.settle(running, end)
        return end

    def _with_filing(self, claim: Claim, end: Transition) -> Transition:
        return filed(end, self._store, handler=claim.handler, payload=claim.payload, details=claim.details)

    # --- stopping

    def _watch(self, running: Running) -> None:
        """Watch the earliest deadline with one timer; a timer per job would cost more than the job."""
        running.deadline = deadline = time.monotonic() + (running.claim.timeout or 0.0)
        if deadline < self._next_check:
            self._check_at(deadline)

    def _check_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_check = deadline
        self._timer = asyncio.get_running_loop().call_later(deadline - time.monotonic(), self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Cut attempts past their deadline, and watch the next one. A loop with coarse timers may call this early."""
        self._timer, self._next_check = None, float("inf")
        now = time.monotonic()
        for running in list(self.held.values()):
            if running.deadline is not None and running.deadline <= now:
                running.deadline = None
                self.cut(running, "timeout")
                wait = GOES_ON if running.is_async else 0.0
                asyncio.get_running_loop().call_later(wait, self._note_overdue, running)
        left = [running.deadline for running in self.held.values() if running.deadline is not None]
        if left:
            self._check_at(min(left))

    def _note_overdue(self, running: Running) -> None:
        """Record in the history that an attempt exceeds its timeout, when that happens and not only when it returns."""
        claim = running.claim
        if (claim.n, claim.token) not in self.held or running.task is None or running.task.done():
            return
        message = f"its time, {span(claim.timeout)}, is over and it still runs; no repeat starts beside it"
        late = OverdueAttempt(claim.n, claim.token, claim.attempts, claim.worker, message)
        writing = self._store.write(note_overdue, late).start()
        self.ends.flushes.add(writing)
        writing.add_done_callback(self._overdue_noted)

    def _overdue_noted(self, writing: asyncio.Future[bool]) -> None:
        self.ends.flushes.discard(writing)
        if not writing.cancelled() and writing.exception() is not None:
            log.warning("that an attempt goes on past its time could not be written", exc_info=writing.exception())

    def cut(self, running: Running, why: Cut) -> None:
        """Stop an attempt."""
        running.stop(why)

    async def finish(self, grace: float) -> None:
        """Let running attempts end; after `grace` seconds cut those that can be cut, and wait for the rest.

        An async handler that ignores its cancellation is left behind: its job lapses with its lease.
        """
        self._give_back_unbegun()
        tasks = [running.task for running in self._awaited() if running.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for running in list(self.held.values()):
                if running.task in late:
                    self.cut(running, "drain")
                    self._warn_if_unstoppable(running)
        while self._busy():
            if not await self._something_ends(within=LAST_WORD):
                self._leave_behind_the_stubborn()
        await self.failure_calls.finish(LAST_WORD)
        self._attempts.close()

    def _warn_if_unstoppable(self, running: Running) -> None:
        """Log what the drain waits for: otherwise a worker that does not end would not say why."""
        claim = running.claim
        if self.is_unstoppable(claim):
            log.warning(
                "job %s of handler %s still runs: a plain function cannot be stopped, so the worker waits for it; a "
                "second signal ends the worker at once and leaves the job to its lease, so that it may run again",
                claim.id,
                claim.handler,
                extra=claim.log_fields,
            )

    def _leave_behind_the_stubborn(self) -> None:
        for running in self._awaited():
            if running.is_async and running.cut is not None and running.task is not None and not running.task.done():
                self._left_behind.add((running.claim.n, running.claim.token))
                log.error(
                    "job %s of handler %s goes on although it was cancelled; it is left to its lease and may run again:"
                    " let the handler end when it gets CancelledError",
                    running.claim.id,
                    running.claim.handler,
                    extra=running.claim.log_fields,
                )

    @property
    def left_behind(self) -> bool:
        """Whether a handler that ignored its cancellation outlives this worker."""
        return any(key in self.held for key in self._left_behind)

    def _give_back_unbegun(self) -> None:
        while self._unbegun:
            self._give_back(self._unbegun.popleft())

    def _give_back_cancelled(self) -> None:
        """Give back attempts that were cancelled before their first step, because the whole loop is stopping."""
        for running in list(self.held.values()):
            if running.task is not None and running.task.cancelled():
                running.task = None
                self._give_back(running)

    def _give_back(self, running: Running) -> None:
        self.ends.settle(running, settle(running.claim, NotEntered("drain"), running.rules, 0.0))

    def threads_busy(self) -> bool:
        """Return whether a plain function still runs. Any thread may call this, even after the loop is closed."""
        threads = [running.thread for running in list(self.held.values())]
        return any(thread is not None and not thread.done() for thread in threads)

    def attempt_of(self, task: asyncio.Task[Any]) -> Claim | None:
        """Return the job that a task of the loop runs, if any. Any thread may call this."""
        return next((running.claim for running in list(self.held.values()) if running.task is task), None)

    async def wait_ended(self, claim: Claim) -> None:
        """Wait until the end of a job is on disk; return at once if it is left behind or cannot be written."""
        key = (claim.n, claim.token)
        while key in self.held and key not in self.ends.unwritten | self._left_behind:
            task = self.held[key].task
            ending: set[asyncio.Future[Any]] = {*self.ends.flushes}
            if task is not None and not task.done():
                ending.add(task)
            if ending:
                await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
            else:
                await self._turn()

    def is_unstoppable(self, claim: Claim) -> bool:
        """Return whether a job runs as a plain function, which cannot be stopped."""
        running = self.held.get((claim.n, claim.token))
        return running is not None and running.thread is not None and not running.thread.done()

    async def idle(self, within: float | None = None) -> bool:
        """Wait until nothing runs and every end is on disk; return False if nothing ended for `within` seconds."""
        while self._busy():
            if not await self._something_ends(within):
                return False
        return True

    def _busy(self) -> bool:
        return bool(self.ends.waiting or self._awaited())

    def _awaited(self) -> list[Running]:
        """Return the held attempts whose end can still be expected on disk."""
        return [self.held[key] for key in self.held.keys() - self.ends.unwritten - self._left_behind]

    async def _something_ends(self, within: float | None = None) -> bool:
        """Wait until the running attempts and writes are done; return whether any of them was done in time."""
        self._give_back_cancelled()
        tasks = [running.task for running in self._awaited() if running.task and not running.task.done()]
        if not tasks and not self.ends.flushes:
            await self._turn()
            return True
        done, _ = await asyncio.wait([*tasks, *self.ends.flushes], timeout=within)
        return bool(done)

    async def _turn(self) -> None:
        """Yield so that waiting ends reach the store. Leave behind attempts that are over without an end."""
        for running in [] if self.ends.waiting else self._awaited():
            if running.task is not None and running.task.done() and not running.task.cancelled():
                self._left_behind.add((running.claim.n, running.claim.token))
                broke = running.task.exception()
                what, about = "the attempt of job %s broke off; it is left to its lease", running.claim.log_fields
                log.error(what, running.claim.id, exc_info=broke, extra=about)
        await asyncio.sleep(0)
