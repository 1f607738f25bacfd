"""Heartbeats on a thread of their own: a blocked event loop does not cost a worker its leases."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from standfast.errors import StoreUnavailable
from standfast.job import Claim
from standfast.store.store import Store
from standfast.worker import upkeep
from standfast.worker.upkeep import Beat, WorkerCard

log = logging.getLogger("standfast.worker")

LONGEST_BEAT = 10.0
BEATS_PER_LEASE = 3
PAUSE_AFTER_REFUSAL = 0.1
"""Seconds between attempts when the store is away: sweepers elsewhere wait only one beat after it is back."""
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
        self._thread = self._new_thread()
        self._last = -math.inf

    def start(self) -> None:
        """Beat once, so that the store knows the worker before it claims; then start the thread."""
        self.beat()
        self._thread.start()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="standfast-heartbeat", daemon=True)

    def revive(self) -> None:
        """Restart the thread if an unexpected error has ended it: without beats every job of this worker lapses."""
        if not self._stopping and not self._thread.is_alive():
            log.error("the heartbeat had stopped and goes on")
            self._thread = self._new_thread()
            self._hurry.set()
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
            try:
                self.beat()
            except StoreUnavailable as error:
                log.warning("a heartbeat did not reach the store: %s", error)
                pause = min(self.every, PAUSE_AFTER_REFUSAL)
            else:
                pause = self.every

    def stop(self) -> None:
        """Stop the thread; calling this again does nothing."""
        self._stopping = True
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join()
