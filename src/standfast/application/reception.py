"""How new jobs get in: into the store, or into this host's spool while the store is away."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from standfast.application.fallback import Fallbacks
from standfast.concurrency.flows import SyncOrAsync, run_off_loop
from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.threads import run_in_thread
from standfast.errors import StoreGone, StoreUnavailable, WrongAddress
from standfast.job import NewJob, Receipt
from standfast.spine import bulk, intake
from standfast.spine.accept import receipt
from standfast.spine.claim_requests import Accepted
from standfast.store import store as store_module
from standfast.store.spool import Spool
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.queues.declarations import Declarations
from standfast.wings.relay import verbs as spooled
from standfast.wings.relay.forwarder import Forwarder
from standfast.wings.relay.verbs import SpoolStatus

log = logging.getLogger("standfast.queue")

Enqueue = Callable[[Sequence[NewJob]], Awaitable[list[Accepted]]]
LET_PASS = 1.0
"""Seconds that a call waits while earlier jobs are brought from the spool to the store."""


class SpoolFirst(StoreUnavailable):
    """The store may be available, but earlier jobs must be brought to it first."""


class Reception:
    """Accepts jobs. While the spool is not empty, every job goes through it: none overtakes an earlier one."""

    def __init__(self, store: Store, spool: Spool | None, declared: Declarations, fallbacks: Fallbacks) -> None:
        self._store = store
        self._spool = spool
        self._declared = declared
        self._fallbacks = fallbacks
        self._making = ForkableLock()
        self._forwarder_of: tuple[int, Forwarder] | None = None
        self._asking: asyncio.Future[StoreUnavailable | None] | None = None

    # --- accepting

    async def accept(self, job: NewJob, enqueue: Enqueue | None = None) -> Receipt:
        """Accept one job; `enqueue` replaces the plain way of storing it."""
        if enqueue is None and self._spool is None and self._declared.published is self._declared.newest:
            answer = await self._store.write(intake.enqueue, job)
        else:
            [answer] = await self._stored([job], enqueue or self._enqueue)
        if self._fallbacks.untold and not _is_spooled(answer):
            await self._fallbacks.tell()
        return receipt(answer, job)

    async def accept_bulk(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Accept all of these jobs, or none."""
        answers = await self._stored(jobs, self._enqueue_bulk)
        return [receipt(answer, job) for answer, job in zip(answers, jobs, strict=True)]

    async def accept_each(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Accept each of these jobs that can be stored; return an answer for each."""
        return await self._stored(jobs, self._enqueue)

    def _enqueue(self, jobs: Sequence[NewJob]) -> Awaitable[list[Accepted]]:
        return self._store.write_all(intake.enqueue, jobs)

    def _enqueue_bulk(self, jobs: Sequence[NewJob]) -> Awaitable[list[Accepted]]:
        return self._store.write(bulk.enqueue_bulk, jobs)

    async def _stored(self, jobs: Sequence[NewJob], enqueue: Enqueue) -> list[Accepted]:
        spool = self._spool
        if spool is None:
            if self._declared.published is not self._declared.newest:
                await self._declared.publish()
            return await enqueue(jobs)
        refused = None
        while refused is None and (spool.waiting is not False or self._declared.unpublished):
            refused = await SyncOrAsync(partial(self._ask_once, spool), partial(self._refusal, spool))
        if refused is None:
            try:
                return await enqueue(jobs)
            except StoreGone:
                raise
            except StoreUnavailable as error:
                refused = error
        return await run_off_loop(self._put, spool, jobs, refused)

    def _ask_once(self, spool: Spool) -> asyncio.Future[StoreUnavailable | None]:
        """Ask once for all waiting calls of this loop: they continue in the order they came."""
        asked = self._asking
        if asked is None or asked.done() or asked.get_loop() is not asyncio.get_running_loop():
            asked = self._asking = run_in_thread(self._refusal, spool)
        return asyncio.shield(asked)

    def _refusal(self, spool: Spool) -> StoreUnavailable | None:
        """Return why jobs cannot go to the store itself; wait until a deadline for a store that is being opened."""
        self._store.check_not_closed()
        forwarder = self._forwarder(spool)
        if spool.waiting or spool.look():
            emptied = forwarder.wait_until_empty(LET_PASS)
            if isinstance(forwarder.refusal, WrongAddress):
                raise WrongAddress(str(forwarder.refusal))
            if not emptied:
                return SpoolFirst("it waits behind jobs that came before it", definite=True)
        try:
            forwarder.wait_until_open(store_module.PATIENCE)
        except StoreGone:
            raise
        except StoreUnavailable as error:
            return error
        return None

    def _put(self, spool: Spool, jobs: Sequence[NewJob], refused: StoreUnavailable) -> list[Accepted]:
        """Write jobs to the spool; if that fails too, the error says whether they can be in either place."""
        try:
            spool.put(jobs, self._store.moment(), spooled.server_message(refused), unsure=not refused.definite)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{refused}; {error}", definite=refused.definite and error.definite) from error
        forwarder = self._forwarder(spool)
        if not isinstance(refused, SpoolFirst):
            forwarder.met(refused)
        forwarder.wake()
        return [Receipt(job.id, "spooled", None) for job in jobs]

    # --- looking

    async def view(self, job_id: str | None, *, of_any_process: bool = False) -> JobView | None:
        """Return a job that waits in the spool, which other processes of this host may fill too."""
        self._store.check_not_closed()
        spool = self._spool
        if spool is None or (spool.waiting is False and not spool.refuses and not of_any_process):
            return None
        entry = await run_in_thread(spool.find, job_id or "")
        return None if entry is None else spooled.view(entry, self._current_refusal)

    @property
    def has_spool(self) -> bool:
        """Whether jobs may wait for this store in a spool."""
        return self._spool is not None

    async def spool_status(self) -> SpoolStatus | None:
        """Return what waits in the spool; None for a store without a spool."""
        self._store.check_not_closed()
        if self._spool is None:
            return None
        return await run_in_thread(spooled.spool_status, self._spool, self._store.moment(), self._current_refusal)

    @property
    def _current_refusal(self) -> Exception | None:
        return None if self._forwarder_of is None else self._forwarder_of[1].refusal

    # --- life

    async def open(self) -> None:
        """Open the store. If there is a spool, the store may be away: jobs are still accepted."""
        try:
            await self._declared.publish()
        except StoreUnavailable as error:
            if self._spool is None:
                raise
            log.warning("the store is away, jobs are spooled in %s: %s", self._spool.path, error)
        if self._spool is not None:  # jobs may wait there since this process, or another one, last ran
            self._forwarder(self._spool)

    def close(self) -> None:
        """Bring the jobs that can be brought at once to the store; the rest wait for the next process of this host."""
        with self._making:
            opened, self._forwarder_of = self._forwarder_of, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()
        if self._spool is not None:
            self._spool.close()

    def _forwarder(self, spool: Spool) -> Forwarder:
        """Return the forwarder of this process: a forked child does not have its parent's thread."""
        with self._making:
            made = self._forwarder_of
            if made is None or made[0] != os.getpid() or not made[1].alive:
                made = self._forwarder_of = (os.getpid(), Forwarder(self._store, spool, self._declared))
            return made[1]


def _is_spooled(answer: Accepted) -> bool:
    return isinstance(answer, Receipt) and answer.outcome == "spooled"
