"""Brings the jobs of the spool to the server: in order, and each is deleted only once it is there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from standfast.concurrency.flows import run_sync
from standfast.concurrency.threads import try_start
from standfast.errors import StandfastError, StoreUnavailable, WrongAddress
from standfast.store.scripts import Write
from standfast.store.spool import Entry, Spool
from standfast.store.store import Store
from standfast.wings.letters.dead_jobs import in_conflict, refused, unknown
from standfast.wings.letters.insert_dead import insert_dead_accepted
from standfast.wings.queues.declarations import Declarations
from standfast.wings.relay import scripts
from standfast.wings.relay.relay import Relay, hand_over
from standfast.wings.relay.scripts import Forward, Unforwardable

log = logging.getLogger("standfast.queue")

AT_ONCE = 500
LOOK_EVERY = 5.0
"""Seconds between two looks for jobs that another process, gone since, left in the spool."""
TRY_EVERY = 0.25
"""Seconds between two attempts while the server is away."""
AGAIN_EVERY = 60.0
"""Seconds until a job that the store refused is tried again: another version may take it."""
LAST_TRY = 2.0
"""Seconds that closing waits for jobs that can still be brought."""


class Forwarder:
    """One thread that opens the store and empties the spool. Jobs are known by id: bringing one twice is harmless."""

    def __init__(self, store: Store, spool: Spool, declared: Declarations) -> None:
        self._store = store
        self._spool = spool
        self._declared = declared
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._news = threading.Condition()
        self._steps = 0
        self._latest = 0.0
        self._again_at = 0.0
        self._until = 0.0
        self.refusal: StandfastError | None = None
        """Why nothing is forwarded now."""
        self._relay: Relay[Entry] = Relay(store, self)
        self._thread = threading.Thread(target=self._run, name="standfast-forwarder", daemon=True)
        if not try_start(self._thread):  # the interpreter is ending: its first step happens here
            self._step()

    @property
    def alive(self) -> bool:
        """Whether its thread is alive."""
        return self._thread.is_alive()

    def wake(self) -> None:
        """Make it look now."""
        self._woken.set()

    def wait_until_open(self, seconds: float) -> None:
        """Wait until the store is open and knows what is declared here; raise the reason if it is not."""
        give_up = time.monotonic() + seconds
        self.wake()
        with self._news:
            begun = self._steps
            while self._declared.unpublished:
                left = give_up - time.monotonic()
                refused = self.refusal if self._steps > begun else None
                if isinstance(refused, WrongAddress):
                    raise WrongAddress(str(refused))
                if refused is not None and (left <= 0 or not isinstance(refused, StoreUnavailable)):
                    raise refused
                if left <= 0:
                    raise StoreUnavailable("the store did not answer in time; nothing was written", definite=True)
                self._news.wait(left)

    def wait_until_empty(self, seconds: float) -> bool:
        """Wait until every job is brought, as long as there is progress; return whether the spool is empty.

        A caller that comes meanwhile should wait a little, not queue behind the rest: the spool might never be empty.
        """
        give_up = time.monotonic() + seconds
        with self._news:
            while self._spool.waiting and self.refusal is None and (left := give_up - time.monotonic()) > 0:
                self._news.wait(left)
        return not self._spool.waiting

    def met(self, refusal: StoreUnavailable) -> None:
        """Note that the store was just found to be away."""
        with self._news:
            self.refusal = self.refusal or refusal
            self._news.notify_all()

    def close(self) -> None:
        """Try once more, unless the server is away, and stop; the remaining jobs wait in the spool."""
        self._until = time.monotonic() + LAST_TRY
        self._closing.set()
        self.wake()
        if self.alive:
            self._thread.join(LAST_TRY + TRY_EVERY)

    @property
    def _out_of_time(self) -> bool:
        return self._closing.is_set() and time.monotonic() > self._until

    def _run(self) -> None:
        while True:
            last = self._closing.is_set()
            if not (last and (self.refusal or self._out_of_time)):
                self._step()
            if last:
                return
            if self.refusal is None or isinstance(self.refusal, WrongAddress):  # so that our retries lock no account
                self._woken.wait(LOOK_EVERY)
            else:
                self._closing.wait(TRY_EVERY)
            self._woken.clear()

    def _step(self) -> None:
        refusal: StandfastError | None = None
        try:
            self._declared.publish_now()
            self._empty_spool()
        except StandfastError as error:
            refusal = error
            if str(error) != str(self.refusal) and not (isinstance(error, WrongAddress) and not self._spool.look()):
                log.warning("what is spooled cannot be brought to the store now, trying again: %s", error)
        with self._news:
            self.refusal = refusal
            self._steps += 1
            self._news.notify_all()

    def _empty_spool(self) -> None:
        run_sync(self._relay.run())
        if not self._out_of_time and time.monotonic() > self._again_at:
            self._again_at = time.monotonic() + AGAIN_EVERY
            for entry in self._spool.refused(AT_ONCE):
                self.bring([entry])

    def bring(self, entries: Sequence[Entry]) -> None:
        """Bring these jobs, in this thread."""
        run_sync(self._relay.bring(entries))

    # --- the spool as a source

    @property
    def script(self) -> Write[Forward, bool]:
        """The script that stores jobs accepted on this host: none of them is refused for want of room."""
        return scripts.forward

    async def next_entries(self) -> Sequence[Entry]:
        """Return the jobs that have waited longest; none once closing has waited long enough."""
        return [] if self._out_of_time else self._spool.oldest(AT_ONCE)

    def forward(self, entry: Entry) -> Forward:
        """Return how to store a job, with its time of acceptance; a clock set back must not reverse the order."""
        self._latest = max(self._latest, self._store.queue_time(entry.accepted))
        ttl = self._store.approval_ttl
        unsure = partial(unknown, ttl=ttl) if entry.unsure else None
        return Forward(entry.job, self._latest, partial(in_conflict, ttl=ttl), unsure)

    def apart(self, entries: Sequence[Entry]) -> list[list[Entry]] | None:
        """Split the jobs by the call that handed them in."""
        batches = [list(batch) for _, batch in groupby(entries, key=lambda entry: entry.batch)]
        return batches if len(batches) > 1 else None

    async def settle(self, entries: Sequence[Entry], _here: Sequence[bool]) -> None:
        """Delete the jobs that were brought. Callers that come now wait for the rest, or there might always be more."""
        self._spool.delete(entries)
        self.refusal = None

    async def refuse(self, entries: Sequence[Entry], error: Unforwardable) -> None:
        """Note a job that the store cannot take, and try it again later: another version may. Then make it a letter."""
        self.refusal = None
        if len(entries) == 1 and entries[0].tries and await self._bury(entries[0], error):
            self._spool.delete(entries)
            return
        log.error("the store refuses a spooled job: %s", error)
        self._spool.note(entries, str(error))
        self._again_at = time.monotonic() + AGAIN_EVERY

    async def _bury(self, entry: Entry, error: Unforwardable) -> bool:
        """Turn a job that was refused again into a letter, where people look: no one looks into a spool."""
        burial = refused(entry.job, str(error), self._store.approval_ttl)
        try:
            [buried] = await hand_over(self._store, insert_dead_accepted, [burial])
        except Unforwardable as also:
            log.error("a spooled job cannot even become a letter: %s", also)  # noqa: TRY400 - the message says it all
            return False
        if buried:
            about = {"job_id": entry.job.id, "queue": entry.job.queue, "handler": entry.job.handler}
            what = "the store refuses a spooled job, which became the letter %s: %s"
            log.error(what, entry.job.id, error, extra=about)
        return buried
