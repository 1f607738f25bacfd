"""Heartbeats on a thread of their own: a blocked event loop does not cost a worker its leases."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from standfast.concurrency.guarded import call_guarded
from standfast.concurrency.store_moved import tell_moved
from standfast.errors import StandfastError, StoreMoved, StoreUnavailable
from standfast.job import Claim
from standfast.store.store import Store
from standfast.worker import upkeep
from standfast.worker.upkeep import Beat, WorkerCard

log = logging.getLogger("standfast.worker")

LONGEST_BEAT = 10.0
BEATS_PER_LEASE = 3
PAUSE_AFTER_REFUSAL = 0.1
"""Seconds between attempts when the store is away: sweepers elsewhere wait only one beat after it is back."""
PAUSE_AFTER_ERROR = 1.0
"""The same after any other error: a wrong password that is tried ten times a second can lock its role out."""
MARGIN = 0.8
"""Once this share of a lease has passed without a heartbeat, no job is started under it."""


def beat_for(lease: float) -> float:
    """Return the seconds between two heartbeats of a worker that holds a job with this lease."""
    return min(LONGEST_BEAT, lease / BEATS_PER_LEASE)


class Heartbeat:
    """Renews a worker's leases at an interval, and reports which jobs the store says the worker holds."""

    def __init__(
        self,
        store: Store,
        card: Callable[[], WorkerCard],
        every: float,
        report: Callable[[Beat], None],
        alive: Callable[[], bool],
    ) -> None:
        self._store = store
        self._card = card
        self.every = every
        self._report = report
        self._alive = alive
        self._stopping = False
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standfast-heartbeat", daemon=True)
        self._last = -math.inf
        self._trouble: str | None = None
        """What was wrong with the last beat, if anything."""
        self.failures = 0
        """How many beats have failed so far."""

    def start(self) -> None:
        """Beat once, so that the store knows the worker before it claims; then start the thread."""
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        """Renew the leases now."""
        before, requested_at = self._store.now(), time.monotonic()
        beat = self._store.write(upkeep.beat, self._card()).result()
        self._last = before
        self._report(beat._replace(requested_at=requested_at))

    def covers(self, lease: float) -> bool:
        """Return whether leases were renewed recently enough to start a job with this lease.

        Leases are counted in queue time, which goes on while the machine sleeps.
        """
        return self._store.now() - self._last < lease * MARGIN

    def still_holds(self, claim: Claim, now: float) -> bool:
        """Return whether a claim may still be started; its lease is over if too much time has passed."""
        return now - claim.claimed_at < claim.lease * MARGIN or self.covers(claim.lease)

    def keep_up_with(self, lease: float) -> None:
        """Beat often enough for a lease that is shorter than any before."""
        if lease < self.every * BEATS_PER_LEASE:
            self.every = lease / BEATS_PER_LEASE
            self._hurry.set()

    def hurry(self) -> None:
        """Beat at once."""
        self._hurry.set()

    def _run(self) -> None:
        pause = self.every
        while True:
            self._hurry.wait(pause)
            self._hurry.clear()
            if self._stopping or not self._alive():
                return
            pause = call_guarded(self._go_on, self._pause_after)

    def _go_on(self) -> float:
        """Beat; return the seconds until the next beat."""
        self.beat()
        self._trouble = None
        return self.every

    def _pause_after(self, error: Exception) -> float:
        """Count a beat that failed, and log it if the trouble is a new one; return the seconds until the next beat.

        Whatever the error is, the beats go on: without them every job held here lapses, and runs a second time.
        """
        self.failures += 1
        if isinstance(error, StoreMoved):
            tell_moved(error)
            return self.every
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self._trouble:
            level, trace = (logging.WARNING, None) if isinstance(error, StandfastError) else (logging.ERROR, error)
            log.log(level, "a heartbeat failed and is tried again: %s", trouble, exc_info=trace)
        self._trouble = trouble
        return min(self.every, PAUSE_AFTER_REFUSAL if isinstance(error, StoreUnavailable) else PAUSE_AFTER_ERROR)

    def stop(self) -> None:
        """Stop the thread; calling this again does nothing."""
        self._stopping = True
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join()
