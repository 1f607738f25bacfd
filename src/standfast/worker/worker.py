"""A worker: claimer, executor, heartbeat, sweeper and pruner, started and stopped together."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from standfast.decide.settle import given_back
from standfast.handlers.registry import Registry
from standfast.job import Claim
from standfast.rules import QueueRules
from standfast.store.store import Store
from standfast.store.upkeep import Beat, Sweep, WorkerCard
from standfast.worker.claimer import Claimer
from standfast.worker.executor import Executor
from standfast.worker.heartbeat import Heartbeat
from standfast.worker.loops import Loop
from standfast.worker.pruner import EVERY as PRUNE_EVERY
from standfast.worker.pruner import Pruner
from standfast.worker.sweeper import Sweeper

SLOTS = 64
"""Slots per queue, unless `concurrency` says otherwise."""
GRACE = 30.0
"""Seconds a drain lets attempts finish before it cuts them."""
LONGEST_BEAT = 10.0
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
        beat = min([LONGEST_BEAT, *(rule.lease / 3 for rule in rules.values())])
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._store = store
        self._ready = ready
        self._grace = grace
        self._executor = Executor(store, registry, self._freed, threads=concurrency * max(1, len(lanes)))
        self._claimer = Claimer(store, self.id, lanes, concurrency, self._start)
        self._heartbeat = Heartbeat(store, self._card(lanes, rules), beat, self._reported)
        self._loops = [
            Loop("sweeper", beat, Sweeper(store, Sweep(every=beat, patience=beat)).sweep),
            Loop("pruner", PRUNE_EVERY, Pruner(store).prune),
            Loop("poll", POLL_EVERY, self._poll),
        ]
        self._strangers: set[tuple[int, int]] = set()
        self._seen = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False

    def _card(self, lanes: dict[str, tuple[str, ...]], rules: dict[str, QueueRules]) -> WorkerCard:
        queues = msgspec.json.encode(list(lanes)).decode()
        declares = msgspec.json.encode({name: msgspec.json.encode(rule).decode() for name, rule in rules.items()})
        return WorkerCard(self.id, socket.gethostname(), os.getpid(), queues, declares.decode())

    # --- life

    async def __aenter__(self) -> Self:
        """Start working."""
        await self._ready()
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._heartbeat.start)
        self._store.listen(self._hinted)
        for loop in self._loops:
            loop.start()
        self._claimer.kick()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain and stop."""
        await self.drain()

    async def drain(self) -> None:
        """Claim no more, let what runs end or give it back, and leave. Calling it again does nothing."""
        if self._draining:
            return
        self._draining = True
        self._store.unlisten(self._hinted)
        await self._claimer.stop()
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
        ran = await self._claimer.claim_until_empty(self._executor.idle)
        await self.drain()
        return ran

    # --- wiring

    def _start(self, claim: Claim, rules: QueueRules) -> None:
        if self._heartbeat.covers(claim.lease) and not self._draining:
            self._executor.start(claim, rules)
        else:
            self._executor.refuse(claim, rules, "the worker is stopping or its lease is too old")

    def _freed(self, queues: Counter[str]) -> None:
        self._claimer.freed(queues)

    def _hinted(self, hint: dict[str, float]) -> None:
        """Hand a hint to the loop; the store calls this on a thread of its own."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._claimer.heard, hint)

    async def _poll(self) -> None:
        """Look by oneself when the journal has grown: hints can be lost."""
        number = await self._store.last_journal_number()
        if number != self._seen:
            self._seen = number
            self._claimer.look_everywhere()

    def _reported(self, beat: Beat) -> None:
        """Have the loop judge what the store says, behind the claims it was told of; this runs on the beat's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._compare, beat)

    def _compare(self, beat: Beat) -> None:
        """Stop attempts whose lease is lost, and give back claims that never arrived here."""
        stored = {(job.n, job.token): job for job in beat.held}
        for key, running in list(self._executor.held.items()):
            if key not in stored and running.claim.claimed_at < beat.at:
                self._executor.cut(running, "lost")
        strangers = set(stored) - set(self._executor.held)
        for key in strangers & self._strangers:  # unknown for two beats: the answer to its claim was lost
            job = stored[key]
            self._executor.hand_in(given_back(job.n, job.token, job.id, job.queue))
        self._strangers = strangers
