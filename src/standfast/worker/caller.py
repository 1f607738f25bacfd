"""A process that calls handlers directly: `run` executes a job here as a worker would, under leases of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context

import msgspec

from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.job import Claim, NewJob
from standfast.rules import QueueRules
from standfast.spine.registry import Registry
from standfast.store.hints import STOPS
from standfast.store.store import Store
from standfast.telemetry import Tracing
from standfast.wings.calls import scripts as calls
from standfast.wings.calls.scripts import Call, Called
from standfast.wings.calls.words import CALLER
from standfast.wings.effects.verbs import Verifier
from standfast.wings.isolation.isolated_handler import not_starting
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.limits.readiness import Readiness
from standfast.wings.policy.verbs import Policies
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.declarations import Declarations
from standfast.worker import lifeline, upkeep
from standfast.worker.executor import Executor
from standfast.worker.heartbeat import LONGEST_BEAT, Heartbeat, beat_for
from standfast.worker.middleware import Middleware
from standfast.worker.reconcile import Comparison
from standfast.worker.upkeep import Beat, WorkerCard
from standfast.worker.worker import GRACE, TOO_LATE
from standfast.worker.worker_statement import comparable

NO_QUEUES = "[]"
"""A caller serves no queue: it runs only the jobs it is called for."""
LAST_REPLIES = 2.0
"""Seconds that `close` waits for the replies to calls that have ended."""
LOOK_AGAIN = 0.005


class Caller:
    """The worker behind the calls of one event loop: an executor and a heartbeat, but no claimer."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        verifier: Verifier,
        doors: QueueGates,
        readiness: Readiness,
        policy: Policies,
        declared: Declarations,
        tracing: Tracing | None = None,
        middleware: Middleware | None = None,
    ) -> None:
        self.id = f"{CALLER}{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._store = store
        self._registry = registry
        self._doors = doors
        self._readiness = readiness
        self._policy = policy
        self._declared = declared
        self._executor = Executor(
            store,
            registry,
            verifier,
            _freed,
            owner=self.id,
            policy=policy.known,
            looks_back=True,
            doubted=readiness.doubt,
            tracing=tracing,
            middleware=middleware,
        )
        self._comparison = Comparison(self._executor)
        beat = min([LONGEST_BEAT, *(beat_for(rule.lease) for rule in declared.rules.values())])
        self._heartbeat = Heartbeat(store, self._card, beat, self._reported, self._alive)
        self._loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._known: set[str] = set()
        """The queues whose gate, if they have one, is known."""
        self._calls = 0
        self._under_way: set[int] = set()

    def _card(self) -> WorkerCard:
        declares = comparable(self._declared.statement(), self._policy.declares())
        counted = self._executor.stopwatch.take(self._store.now())
        who = (self.id, socket.gethostname(), os.getpid())
        unable = self._executor.unwritten, not_starting([*self._registry.own.values()])
        return WorkerCard(*who, NO_QUEUES, declares, None, counted, lifeline.hold(), *unable)

    # --- calling

    async def call(self, job: NewJob, within: float | None) -> Called:
        """Store a job, and start it here if it may run now; it may then take at most `within` seconds."""
        await self._begin()
        await self._ask_gate(job.queue)
        ready = await self._probed(job)
        self._calls += 1
        number = self._calls
        self._under_way.add(number)
        try:
            call = Call(job, self.id, self._doors.answer(job.queue), self._policy.known.mark, ready)
            called = await self._store.write(calls.call, call)
            self._policy.known.learn(called.policy)
            if called.rules is not None:
                self._doors.learn(job.queue, called.rules.gate)
            if called.claim is not None and called.rules is not None:
                called.claim = _limited(called.claim, within)
                self._start(called.claim, called.rules)
            return called
        finally:
            self._under_way.discard(number)

    def _start(self, claim: Claim, rules: QueueRules) -> None:
        """Start a call, unless the claim took so long that its lease may be over."""
        self._heartbeat.keep_up_with(claim.lease)
        if self._heartbeat.still_holds(claim, self._store.now()):
            self._executor.start(claim, rules)
        else:
            self._executor.refuse(claim, rules, TOO_LATE)

    async def _probed(self, job: NewJob) -> dict[str, str | None] | None:
        """Run the probes of a call's handler, if any. It is called whatever they say: its own error decides."""
        handler = self._registry.find(job.queue, job.handler)
        if handler is None or not handler.requires:
            return None
        await self._readiness.refresh(handler)
        return {handler.name: self._readiness.why_not(handler)}

    def wait_ended(self, claim: Claim) -> Awaitable[None]:
        """Return an awaitable that completes when the end of a call is on disk."""
        return self._executor.wait_ended(claim)

    def is_unstoppable(self, claim: Claim) -> bool:
        """Return whether a call runs as a plain function, which cannot be stopped."""
        return self._executor.is_unstoppable(claim)

    async def _begin(self) -> None:
        """Register this caller with the store, once, before the first call."""
        if self._begun is None:
            self._store.listen(self._hinted)
        if self._begun is None or (self._begun.done() and self._begun.exception() is not None):
            self._begun = run_in_thread(self._heartbeat.start)
        await asyncio.shield(self._begun)

    async def _ask_gate(self, queue: str) -> None:
        """Ask a queue's gate before any job of the queue starts; concurrent calls share one question."""
        if queue not in self._known:
            self._doors.learn(queue, (await self._store.read(queue_scripts.rules(queue))).gate)
            self._known.add(queue)
        if self._doors.must_ask(queue):
            if queue not in self._asking:
                self._asking[queue] = asyncio.create_task(self._doors.ask_now(queue))
                self._asking[queue].add_done_callback(lambda _: self._asking.pop(queue, None))
            await asyncio.shield(self._asking[queue])

    # --- wiring

    def _hinted(self, hint: dict[str, float]) -> None:
        if STOPS in hint:
            self._heartbeat.hurry()

    def _reported(self, beat: Beat) -> None:
        self._executor.stopwatch.confirm(beat.at)
        with suppress(RuntimeError):  # the loop is closed: the attempts that still run cannot be stopped
            self._loop.call_soon_threadsafe(self._compare, beat)

    def _compare(self, beat: Beat) -> None:
        """Judge a heartbeat's answer. Calls are answered in any order: the oldest unanswered one decides."""
        answers = min(self._under_way) - 1 if self._under_way else self._calls
        self._comparison.judge(beat, answers=answers, due=self._calls)

    def _alive(self) -> bool:
        return not self._loop.is_closed() or self._executor.threads_busy()

    @property
    def idle(self) -> bool:
        """Whether it holds no job and has no call under way."""
        return not self._executor.held and not self._under_way

    def abandon(self) -> None:
        """Leave after the loop was closed: its attempts cannot end, so their leases lapse."""
        if self._begun is not None:
            self._store.unlisten(self._hinted)
            self._heartbeat.hurry()  # the heartbeat ends when it sees that the loop is closed

    async def leave(self, grace: float) -> None:
        """Let running jobs end or give them back, then deregister. If this is cancelled, they get no more time."""
        if self._begun is None:
            return
        self._store.unlisten(self._hinted)
        try:
            if self._loop is asyncio.get_running_loop():
                await self._executor.finish(grace)
        except asyncio.CancelledError:
            await self._executor.finish(0.0)
            raise
        finally:
            await self._retire()

    async def _retire(self) -> None:
        await run_in_thread(self._heartbeat.stop)
        with suppress(StoreUnavailable):  # the list drops this caller once it has been silent for a while
            await self._store.write(upkeep.retire, self._executor.stopwatch.take(self._store.now()))


def _freed(_slots: Counter[str]) -> None:
    """Do nothing: a caller keeps no slots."""


def _limited(claim: Claim, within: float | None) -> Claim:
    """Return the claim with its timeout cut to how long the caller waits."""
    if within is None or (claim.timeout is not None and claim.timeout <= within):
        return claim
    return msgspec.structs.replace(claim, timeout=within)


class Callers:
    """The callers of one process: one for each event loop that calls. A forked child has its own."""

    def __init__(self, make: Callable[[], Caller]) -> None:
        self._make = make
        self._context = Context()
        """The context handlers start from: an empty one, so that no call's context leaks into another's."""
        self._of: dict[tuple[int, asyncio.AbstractEventLoop], Caller] = {}
        self._replies = 0

    @contextmanager
    def replying(self) -> Iterator[None]:
        """Make `close` wait while a call reads the end of its job for its reply."""
        self._replies += 1
        try:
            yield
        finally:
            self._replies -= 1

    def of_this_loop(self) -> Caller:
        """Return the caller of the running loop."""
        key = (os.getpid(), asyncio.get_running_loop())
        if key not in self._of:
            self._forget_the_closed()
            self._of[key] = self._context.copy().run(self._make)
        return self._of[key]

    def _forget_the_closed(self) -> None:
        for pid, loop in [key for key in self._of if key[1].is_closed() or key[0] != os.getpid()]:
            gone = self._of.pop((pid, loop))
            if pid == os.getpid():
                gone.abandon()

    async def close(self) -> None:
        """Let every call end. A busy caller of another loop cannot be waited for here, so it is an error."""
        here = asyncio.get_running_loop()
        ours = {loop: caller for (pid, loop), caller in self._of.items() if pid == os.getpid() and not loop.is_closed()}
        if any(loop is not here and not caller.idle for loop, caller in ours.items()):
            raise ConfigurationError(
                "a call to this store runs in another event loop; nothing was closed: wait for it there first"
            )
        self._of = {}
        for caller in ours.values():
            await caller.leave(GRACE)
        give_up = time.monotonic() + LAST_REPLIES
        while self._replies and time.monotonic() < give_up:  # noqa: ASYNC110 - the replies may be in other loops
            await asyncio.sleep(LOOK_AGAIN)
