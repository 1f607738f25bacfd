"""A worker: claimer, executor, heartbeat, sweeper and pruner, started and stopped together."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from operator import attrgetter, sub
from types import TracebackType
from typing import Self

import msgspec

from standfast.concurrency.loops import Guard, Loop
from standfast.concurrency.threads import run_in_thread
from standfast.errors import StoreUnusable
from standfast.job import Claim
from standfast.portable import CAN_RUN_CHILDREN
from standfast.rules import QueueRules
from standfast.spine.registry import Registry
from standfast.store.hints import STOPS, TIMETABLE
from standfast.store.store import Store
from standfast.telemetry import Tracing
from standfast.wings.consent.verbs import Consent
from standfast.wings.effects.verbs import Verifier
from standfast.wings.isolation.isolated_handler import not_starting
from standfast.wings.letters.verbs import DeadLetters
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.limits.readiness import Readiness
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.policy.verbs import Policies
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.declarations import Declarations
from standfast.wings.schedules.ticker import Timetable
from standfast.worker import lifeline, upkeep
from standfast.worker.backlog import catch_up
from standfast.worker.claimer import Claimer
from standfast.worker.due_run import finish_due, run_all_due
from standfast.worker.ends import Ends
from standfast.worker.executor import Executor
from standfast.worker.heartbeat import BEATS_PER_LEASE, LONGEST_BEAT, MARGIN, Heartbeat, beat_for
from standfast.worker.life_hooks import LifeHooks
from standfast.worker.loop_watch import Watch
from standfast.worker.middleware import Middleware
from standfast.worker.moved_store import MovedStore
from standfast.worker.pruner import EVERY as PRUNE_EVERY
from standfast.worker.pruner import Pruner
from standfast.worker.reconcile import Comparison
from standfast.worker.redriver import EVERY as REDRIVE_EVERY
from standfast.worker.redriver import Redriver
from standfast.worker.suspects import InAProcess, InThisWorker, Suspects, run_suspects
from standfast.worker.sweeper import Sweeper
from standfast.worker.total_slots import TotalSlots, check_slots
from standfast.worker.unserved_queues import warn_of_unserved
from standfast.worker.upkeep import Beat, PruneRequest, SweepRequest, WorkerCard
from standfast.worker.worker_statement import comparable

SLOTS = 64
"""Slots per queue, unless `concurrency` says otherwise."""
GRACE = 30.0
"""Seconds for which a drain lets attempts finish before it cuts them."""
TOO_LATE = "its lease is too old to start under"
POLL_EVERY = 2.0
DEATHS_EVERY = 1.0
"""Seconds between two looks at the locks of this host's other processes."""

_queue, _lease = attrgetter("queue"), attrgetter("lease")
_claimed_at, _due_at = attrgetter("claimed_at"), attrgetter("due_at")


class Worker:
    """Runs the jobs of some queues until it is drained. Use it as an async context manager."""

    _entered = False

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        verifier: Verifier,
        doors: QueueGates,
        readiness: Readiness,
        letters: DeadLetters,
        policy: Policies,
        consent: Consent | None = None,
        tracing: Tracing | None = None,
        prune: PruneRequest | None = None,
        beside: Sequence[Loop] = (),
        declared: Declarations,
        ready: Callable[[], Awaitable[None]],
        queues: Sequence[str] | None = None,
        concurrency: int = SLOTS,
        grace: float = GRACE,
        suspects: Sequence[str] | None = None,
        suspects_only: bool = False,
        total: int | None = None,
        life: LifeHooks | None = None,
        middleware: Middleware | None = None,
    ) -> None:
        check_slots(concurrency, total)
        lanes = registry.lanes(queues)
        beat = min([LONGEST_BEAT, *(beat_for(rule.lease) for rule in declared.rules.values())])
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._asked = queues
        self._store = store
        self._ready = ready
        self._grace = grace
        self._policy = policy
        self._registry = registry
        self._unserved = registry.unserved(tuple(lanes))
        """The queues it was asked to serve without having a handler for them."""
        self._life = life or LifeHooks()
        self._hooks_ran = False
        self.moved = MovedStore()
        claimer = self._claimer = self._new_claimer(lanes, concurrency, total, doors, readiness)
        run = partial(Executor, store, registry, verifier, tracing=tracing, middleware=middleware, halt=claimer.halt)
        self._executor = run(claimer.note_freed, owner=self.id, policy=policy.known, doubted=readiness.doubt)
        self._declared = declared
        self._heartbeat = Heartbeat(store, self._card, beat, self._reported, self._alive)
        self._watch = Watch(lambda: bool(self._executor.held), self._executor.attempt_of, self._heartbeat.hurry)
        self._redriver = Redriver(store, letters, self.id, consent)
        self._timetable = Timetable(store, tracing=tracing)
        self._deaths = lifeline.DeathWatch()
        self._sweeper = Sweeper(
            store,
            SweepRequest(every=beat, patience=beat),
            wait=beat_for,
            dead=lambda: self._deaths.dead,
            report=self._executor.failure_calls.report,
        )
        self._suspects = self._made_suspects(suspects)
        self._suspects_only = suspects_only
        self._loops = [] if suspects_only else [*self._made_loops(beat, prune), self._timetable, *beside]
        self.moved.stops(claimer, self._heartbeat, self._loops)
        self._comparison = Comparison(self._executor)
        self._seen: tuple[journal_scripts.JournalEnd, int] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Task[None] | None = None

    def _new_claimer(
        self,
        lanes: dict[str, tuple[str, ...]],
        slots: int,
        total: int | None,
        doors: QueueGates,
        readiness: Readiness,
    ) -> Claimer:
        """Make what claims."""
        return Claimer(
            self._store,
            self.id,
            lanes,
            elsewhere=self._registry.built_in if self._asked is None else (),
            unserved=self._unserved,
            slots=slots,
            total=total,
            ahead=total is None and self._store.location.is_server(),
            start=self._start,
            give_back=lambda *claimed: self._executor.refuse_all(*claimed),  # noqa: PLW0108 - the executor is made after this
            doors=doors,
            readiness=readiness,
            policy=self._policy.known,
            suspects=lambda queues: self._suspects.hear(queues),  # noqa: PLW0108 - likewise
            refused=self.moved.refused,
        )

    def _made_suspects(self, argv: Sequence[str] | None) -> Suspects:
        """Return what runs suspects: in a process of their own, if one can be started."""
        here = InThisWorker(self.id, self._store, self._claimer, self._executor)
        if argv is None or not CAN_RUN_CHILDREN:
            return here
        return InAProcess(argv, self._grace, self._reap, self._claimer.look_everywhere, here)

    def _made_loops(self, beat: float, prune: PruneRequest | None) -> list[Loop]:
        """Return the background loops."""
        return [
            Loop("sweeper", beat, self._sweeper.sweep),
            Loop("deaths", DEATHS_EVERY, self._reap),
            self._suspects,
            Loop("pruner", PRUNE_EVERY, Pruner(self._store, prune).prune),
            Loop("backlog", beat, partial(catch_up, self._store)),
            Loop("poll", POLL_EVERY, self.moved.watched(self._poll)),
            Loop("redriver", REDRIVE_EVERY, self._redriver.go_on),
            Loop("replayer", REDRIVE_EVERY, self._redriver.replay),
        ]

    @property
    def working_in(self) -> asyncio.AbstractEventLoop | None:
        """The open event loop it works in; None before the worker is entered, and after it has left."""
        left = self._leaving is not None and self._leaving.done()
        at_work = self._entered and not left and self._loop is not None and not self._loop.is_closed()
        return self._loop if at_work else None

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues it was asked to serve, or otherwise those that have a handler here."""
        return tuple(self._registry.lanes(self._asked))

    def _card(self) -> WorkerCard:
        queues = msgspec.json.encode([] if self._suspects_only else self._claimer.queues).decode()
        declares = comparable(self._declared.statement(), self._policy.declares())
        process = self._watch.report(), self._executor.stopwatch.take(self._store.now()), lifeline.hold()
        troubles = (*self._executor.unwritten, *self._sweeper.unwritten), not_starting([*self._registry.own.values()])
        return WorkerCard(self.id, socket.gethostname(), os.getpid(), queues, declares, *process, *troubles)

    # --- life

    async def __aenter__(self) -> Self:
        """Start working."""
        await self._ready()
        self._loop = asyncio.get_running_loop()
        await self._life.enter()
        self._hooks_ran = True
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._run_shutdown_hooks)
            undo.push_async_callback(run_in_thread, self._heartbeat.stop)
            await run_in_thread(self._heartbeat.start)
            undo.push_async_callback(self.drain)
            self._watch.start(self._loop)
            self._store.listen(self._hinted)
            for loop in self._loops:
                loop.start()
            self._claimer.learn(await self._store.read(queue_scripts.queue_names()))
            if self._suspects_only:
                await self._claimer.claim_suspects_only()
            else:
                await Guard("deaths").run(self._reap)
            undo.pop_all()
        self._entered = True
        if not self._suspects_only:
            await warn_of_unserved(self._store, self._registry, self._asked, self.id)
        self._claimer.kick()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain and stop."""
        await self.drain()

    async def drain(self) -> None:
        """Claim no more, let running jobs end or give them back, and leave. Calling it again waits for the same end.

        If the caller is cancelled, it stops waiting, but the worker still leaves.
        """
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._drain())
        await asyncio.shield(self._leaving)

    @property
    def left_behind(self) -> bool:
        """Whether a handler ignored its cancellation when this worker left: the loop would wait for it forever."""
        return self._executor.left_behind

    async def _drain(self) -> None:
        """Leave in order, even when the whole loop is being stopped: then running jobs get no more time."""
        self._store.unlisten(self._hinted)
        grace = self._grace
        while True:
            try:
                await self._claimer.stop()
                await self._leave(grace)
                await self._run_shutdown_hooks()
            except asyncio.CancelledError:
                grace = 0.0
            else:
                return

    async def _leave(self, grace: float) -> None:
        """Release everything. Each step can be repeated: a drain that was cancelled starts over."""
        await asyncio.gather(self._suspects.stop(), self._executor.finish(grace))
        for loop in self._loops:
            await loop.stop()
        await run_in_thread(self._watch.stop)
        await run_in_thread(self._heartbeat.stop)
        self._deaths.thread.shutdown(wait=False)
        with suppress(StoreUnusable):  # there is no list to be removed from
            await self._store.write(upkeep.retire, self._executor.stopwatch.take(self._store.now()))

    async def _run_shutdown_hooks(self) -> None:
        """Let the application close what it opened, once everything has ended."""
        if self._hooks_ran:
            self._hooks_ran = False
            await self._life.leave()

    async def run_due(self, at_once: int | None = None) -> Counter[str]:
        """Run due jobs, repeats included, until none is left, then stop: no timers, no waiting. For tests.

        With `at_once=1` each queue runs its jobs one after the other, by priority.
        """
        await self._ready()
        self._loop = asyncio.get_running_loop()
        await run_in_thread(self._heartbeat.beat)
        await self._timetable.run_due()
        self._claimer.learn(await self._store.read(queue_scripts.queue_names()))
        async with self._life.around():
            try:
                return await run_all_due(self._claimer, self._executor, self._redriver, at_once)
            finally:
                await self._leave(self._grace)

    async def finish_due(self) -> None:
        """Run due jobs within the slots until none is left: also ticks, replays, and jobs that dead processes held."""
        await self._sweeper.sweep()
        await catch_up(self._store)
        await self._timetable.run_due()
        await finish_due(self._claimer, self._executor, self._redriver, self._suspects)

    @property
    def claims(self) -> TotalSlots:
        """How many jobs it has claimed so far and may still claim."""
        return self._claimer.total

    async def finish_claimed(self) -> None:
        """Claim no more, and wait until every claimed job has ended: no attempt is cut."""
        await self._claimer.stop()
        await self._executor.idle()

    @property
    def ends(self) -> Ends:
        """What became of the attempts of this worker so far."""
        return self._executor.ends

    @property
    def claim_takes(self) -> float:
        """How many seconds the claim under way has been waiting; 0 if there is none."""
        return self._claimer.claim_takes

    async def run_suspects(self, parent: int, tell: Callable[[bytes], None]) -> None:
        """Run suspects one at a time until none is left, or until the process that started this one is gone."""
        await run_suspects(self._claimer, self._executor, parent, tell)

    # --- wiring

    async def _reap(self) -> None:
        """Decide about the jobs of this host's dead processes: their locks show a death sooner than their leases."""
        if await asyncio.get_running_loop().run_in_executor(self._deaths.thread, self._deaths.look):
            await self._sweeper.sweep()

    def _start(self, claims: list[Claim], rules: dict[str, QueueRules]) -> None:
        """Start the claimed jobs, except those whose lease may be over by now."""
        if not claims:
            return
        now, shortest = self._store.now(), min(map(_lease, claims))
        waits = map(sub, map(_claimed_at, claims), map(_due_at, claims))
        self._executor.stopwatch.waited(zip(map(_queue, claims), waits, strict=True))
        if shortest < self._heartbeat.every * BEATS_PER_LEASE:
            self._heartbeat.keep_up_with(shortest)
        all_hold = now - min(map(_claimed_at, claims)) < shortest * MARGIN
        for claim in claims:
            if all_hold or self._heartbeat.still_holds(claim, now):
                self._executor.start(claim, rules[claim.queue])
            else:
                self._executor.refuse(claim, rules[claim.queue], TOO_LATE)

    def _hinted(self, hint: dict[str, float]) -> None:
        """Pass a hint to the event loop; the store calls this on a thread of its own."""
        if STOPS in hint:
            self._heartbeat.hurry()
        work = {queue: seconds for queue, seconds in hint.items() if queue not in {STOPS, TIMETABLE}}
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                if TIMETABLE in hint:
                    self._loop.call_soon_threadsafe(self._timetable.wake)
                self._loop.call_soon_threadsafe(self._claimer.note_hint, work)

    async def _poll(self) -> None:
        """Look without a hint if the journal grew or the machine slept: hints get lost, and timers sleep too."""
        await self._ready()
        await self._policy.reload()
        if self._claimer.serve(self._registry.lanes(self._asked)):
            self._heartbeat.hurry()  # so that other processes learn that this worker serves it now
            self._claimer.kick()
        slept = round(self._store.now() - asyncio.get_running_loop().time())
        seen = (await self._store.read(journal_scripts.journal_end()), slept)
        if seen != self._seen:
            self._seen = seen
            self._claimer.look_everywhere()

    def _reported(self, beat: Beat) -> None:
        """Let the loop judge the answer, after the claims already queued; this runs on the heartbeat's thread."""
        self._executor.stopwatch.confirm(beat.at)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the attempts that still run cannot be stopped
                self._loop.call_soon_threadsafe(self._compare, beat)

    def _alive(self) -> bool:
        """Return whether to keep beating: without its loop no end can be written, and leases must lapse.

        But a plain function outlives the loop; its job must not run a second time meanwhile.
        """
        return self._loop is None or not self._loop.is_closed() or self._executor.threads_busy()

    def _compare(self, beat: Beat) -> None:
        self._comparison.judge(beat, answers=self._claimer.answers, due=self._claimer.answers_due)
