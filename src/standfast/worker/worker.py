"""A worker: claimer, executor, heartbeat, sweeper and pruner, started and stopped together."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from standfast.decide.settle import given_back
from standfast.handlers.registry import Declaration, Registry
from standfast.job import Claim
from standfast.rules import QueueRules
from standfast.store.hints import STOPS
from standfast.store.store import Store
from standfast.store.upkeep import Beat, Sweep, WorkerCard
from standfast.worker.claimer import Claimer
from standfast.worker.executor import Executor
from standfast.worker.heartbeat import LONGEST_BEAT, MARGIN, Heartbeat, beat_for
from standfast.worker.loops import Loop
from standfast.worker.pruner import EVERY as PRUNE_EVERY
from standfast.worker.pruner import Pruner
from standfast.worker.sweeper import Sweeper

SLOTS = 64
"""Slots per queue, unless `concurrency` says otherwise."""
GRACE = 30.0
"""Seconds a drain lets attempts finish before it cuts them."""
POLL_EVERY = 2.0


class Worker:
    """Runs the jobs of some queues until it is drained. Use it as an async context manager."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        rules: dict[str, QueueRules],
        ready: Callable[[], Awaitable[None]],
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = SLOTS,
        grace: float = GRACE,
    ) -> None:
        lanes = registry.lanes(queues)
        beat = min([LONGEST_BEAT, *(beat_for(rule.lease) for rule in rules.values())])
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self.queues = tuple(lanes)
        self._store = store
        self._ready = ready
        self._grace = grace
        self._executor = Executor(store, registry, self._freed, threads=concurrency * max(1, len(lanes)))
        elsewhere = registry.built_in if queues is None else ()
        self._claimer = Claimer(store, self.id, lanes, elsewhere=elsewhere, slots=concurrency, start=self._start)
        self._declares = _declared(rules, registry.declarations())
        self._heartbeat = Heartbeat(store, self._card, beat, self._reported)
        self._loops = [
            Loop("sweeper", beat, Sweeper(store, Sweep(every=beat, patience=beat), wait=beat_for).sweep),
            Loop("pruner", PRUNE_EVERY, Pruner(store).prune),
            Loop("poll", POLL_EVERY, self._poll),
        ]
        self._strangers: dict[tuple[int, int], float] = {}
        """Jobs the store gave us and we do not know, with the number of answered claims that must have brought them."""
        self._seen = (0, 0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._gone = asyncio.Event()

    def _card(self) -> WorkerCard:
        queues = msgspec.json.encode(self._claimer.queues).decode()
        return WorkerCard(self.id, socket.gethostname(), os.getpid(), queues, self._declares)

    # --- life

    async def __aenter__(self) -> Self:
        """Start working."""
        await self._ready()
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._heartbeat.start)
        self._store.listen(self._hinted)
        for loop in self._loops:
            loop.start()
        self._claimer.learn(await self._store.queue_names())
        self._claimer.kick()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain and stop."""
        await self.drain()

    async def drain(self) -> None:
        """Claim no more, let what runs end or give it back, and leave. Calling it again waits for the same end."""
        if self._draining:
            await self._gone.wait()
            return
        self._draining = True
        self._store.unlisten(self._hinted)
        try:
            await self._claimer.stop()
            await self._leave()
        finally:
            self._gone.set()

    async def _leave(self) -> None:
        await self._executor.finish(self._grace)
        for loop in self._loops:
            await loop.stop()
        await asyncio.to_thread(self._heartbeat.stop)
        await self._store.retire(self.id)

    async def run_due(self) -> Counter[str]:
        """Run what is due, repeats included, until nothing is, and stop: no timers, no waiting. For tests."""
        await self._ready()
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._heartbeat.beat)
        self._claimer.learn(await self._store.queue_names())
        try:
            return await self._claimer.claim_until_empty(self._executor.idle)
        finally:
            await self._leave()

    # --- wiring

    def _start(self, claims: list[Claim], rules: dict[str, QueueRules]) -> None:
        """Start what was claimed, unless so much time has passed since that its lease may be over."""
        now = self._store.now()
        for claim in claims:
            self._heartbeat.keep_up_with(claim.lease)
            if now - claim.claimed_at < claim.lease * MARGIN or self._heartbeat.covers(claim.lease):
                self._executor.start(claim, rules[claim.queue])
            else:
                self._executor.refuse(claim, rules[claim.queue], "its lease is too old to start under")

    def _freed(self, queues: Counter[str]) -> None:
        self._claimer.freed(queues)

    def _hinted(self, hint: dict[str, float]) -> None:
        """Hand a hint to the loop; the store calls this on a thread of its own."""
        if STOPS in hint:
            self._heartbeat.hurry()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and nobody is left to hear it
                self._loop.call_soon_threadsafe(self._claimer.heard, hint)

    async def _poll(self) -> None:
        """Look by oneself when the journal has grown or the machine has slept: hints get lost, and timers sleep too."""
        self._heartbeat.revive()
        slept = round(self._store.now() - asyncio.get_running_loop().time())
        seen = (await self._store.last_journal_number(), slept)
        if seen != self._seen:
            self._seen = seen
            self._claimer.look_everywhere()

    def _reported(self, beat: Beat) -> None:
        """Have the loop judge what the store says, behind the claims it was told of; this runs on the beat's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._compare, beat)

    def _compare(self, beat: Beat) -> None:
        """Stop attempts that lost their lease or are not wanted any more; give back claims that never arrived here."""
        stored = {(job.n, job.token): job for job in beat.held}
        for key, running in list(self._executor.held.items()):
            if key not in stored and running.claim.claimed_at < beat.at:
                self._executor.cut(running, "lost")
            elif key in stored and stored[key].cancelling:
                self._executor.cut(running, "cancel")
        due = self._claimer.answers_due
        unknown = [key for key in stored if key not in self._executor.held]
        strangers = {key: self._strangers.get(key, due) for key in unknown}
        for key in strangers.keys() & self._strangers.keys():
            if strangers[key] <= self._claimer.answers:  # the claim that took it is answered, and did not bring it
                job = stored[key]
                self._executor.hand_in(given_back(job.standing))
                strangers[key] = float("inf")
        self._strangers = strangers


def _declared(rules: dict[str, QueueRules], handlers: list[Declaration]) -> str:
    """Give what a process declares, for others to compare: queue or queue/handler → its rules, as JSON text."""
    declared = {**rules, **{f"{handler.queue}/{handler.name}": handler for handler in handlers}}
    return msgspec.json.encode({name: msgspec.json.encode(what).decode() for name, what in declared.items()}).decode()
