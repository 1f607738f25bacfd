"""The interface that everything above the store uses: read, write, claim. The URL decides which engine answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from standfast.clock import Clock, SystemClock
from standfast.concurrency.flows import Answer
from standfast.errors import StoreClosed
from standfast.store import shared, spools
from standfast.store.caller_transaction import CallerTransaction
from standfast.store.engine import Engine
from standfast.store.places import place
from standfast.store.requests import Request
from standfast.store.scripts import Anchor, Item, Patience, Result, RoundScripts, Write
from standfast.store.spool import Spool, Stamp
from standfast.store.spoolfile import spool_path
from standfast.store.steps import Script
from standfast.store.store_location import StoreLocation
from standfast.store.waiting_requests import StandingClaim

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a caller waits before it is told that the store did not answer."""
LONG = 60.0
"""Seconds that a caller waits for one large transaction."""


class Store:
    """One open store. A write is on disk when its caller has the answer."""

    def __init__(
        self,
        url: str,
        scripts: RoundScripts,
        clock: Clock | None = None,
        *,
        audit_file: str | None = None,
        spool: str | bool | None = None,
        approval_ttl: float,
    ) -> None:
        self._place = place(url, audit_file, spool if isinstance(spool, str) else None)
        self._scripts = scripts
        self._spool = spool
        self._clock = clock or SystemClock()
        self._opened: Engine[Any] | None = None
        self._closed = False
        self.approval_ttl = approval_ttl
        """Seconds that an approval waits if it is filed together with a job's death."""
        self.location = StoreLocation(lambda: self._place, lambda: self._engine)

    @property
    def _engine(self) -> Engine[Any]:
        """The engine of this process: a forked child opens its own and never touches its parent's."""
        if self._opened is None or self._opened.abandoned:
            self.check_not_closed()
            self._opened = shared.acquire(self._place, self._clock, self._scripts)
        return self._opened

    # --- life

    def open(self) -> None:
        """Open the store now rather than on first use."""
        self._engine.now()

    def reopen(self) -> None:
        """Let the next use open the store again after `close`."""
        self._closed = False

    def check_not_closed(self) -> None:
        """Refuse calls after `close`: the code that closed it relies on its file or its connections being free."""
        if self._closed:
            raise StoreClosed

    def close(self) -> None:
        """Serve the waiting requests, then close the store until `reopen`."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened is not None and not opened.abandoned:
            shared.release(opened)

    # --- the verbs

    def read(self, script: Script[T]) -> Answer[T]:
        """Run a reading script in parallel to the writer."""
        return self._engine.read(script)

    def write(self, script: Write[Item, Result], item: Item) -> Request[Result]:
        """Run a writing script for one item, in one transaction with whatever else is waiting."""
        engine = self._opened
        if engine is None or engine.abandoned:
            engine = self._engine
        patience = script.patience
        seconds = PATIENCE if patience is Patience.CALLER else LONG if patience is Patience.LONG else None
        return Request(script, [item], engine.put, seconds=seconds, single=True)

    def write_all(self, script: Write[Item, Result], items: Sequence[Item]) -> Request[list[Result]]:
        """Run a writing script for several items in one transaction; return a result for each."""
        engine = self._opened
        if engine is None or engine.abandoned:
            engine = self._engine
        patience = script.patience
        seconds = PATIENCE if patience is Patience.CALLER else LONG if patience is Patience.LONG else None
        return Request(script, items, engine.put, seconds=seconds)

    def claim(self, request: Any) -> Request[Any]:
        """Claim the jobs that a worker can start now."""
        return Request(self._scripts.claim, [request], self._engine.put, seconds=PATIENCE, single=True)

    def stand(self, request: Any) -> StandingClaim:
        """Claim jobs for a worker as soon as there are any, in the transaction that brings them."""
        claims = self._engine.standing_claims
        standing = StandingClaim(self._scripts.claim, [request], claims.put, single=True)
        standing.claims = claims
        return standing

    def caller_transaction(self, tx: object) -> CallerTransaction:
        """Write inside one of the caller's transactions; it is durable when the caller commits it."""
        return self._engine.caller_transaction(tx)

    # --- time

    def now(self) -> float:
        """Return the present queue time."""
        return self._engine.now()

    def skew(self) -> float:
        """Return wall time minus queue time."""
        return self._engine.skew()

    def times(self) -> tuple[float, float]:
        """Return the present queue time and the present wall time."""
        now = self._engine.now()
        return now, now + self._engine.skew()

    def boot(self) -> str:
        """Identify the boot that workers belong to: workers of another boot are certainly gone."""
        return self._engine.boot()

    def moment(self) -> Stamp:
        """Return the present moment by this host's clocks, even while the store is away."""
        return Stamp(self._clock.boot(), self._clock.elapsed(), self._clock.wall())

    def queue_time(self, moment: Stamp) -> float:
        """Return the queue time of a moment on this host; within one boot, through a clock that cannot be set."""
        return self.now() - self.moment().since(moment)

    # --- besides the verbs

    def listen(self, listener: Callable[[dict[str, float]], None]) -> None:
        """Call the listener when queues get work, with the seconds until then, on a thread of the store."""
        self._engine.listen(listener)

    def unlisten(self, listener: Callable[[dict[str, float]], None]) -> None:
        """Stop calling the listener."""
        self._engine.unlisten(listener)

    def spool(self) -> Spool | None:
        """Return the file that keeps this store's jobs while it is away; None if it should have none."""
        away, named = self._place.away, self._spool
        if away is None or named is False:
            return None
        return spools.spool_at(spool_path(named if isinstance(named, str) else None, away), away)

    @property
    def anchor(self) -> Anchor:
        """Where the links of the audit chain are noted outside the store."""
        return self._engine.anchor

    @property
    def trouble(self) -> str | None:
        """The last error that the writer has not recovered from."""
        return self._engine.trouble

    @property
    def faults(self) -> tuple[type[Exception], ...]:
        """Errors that mean that a script can never write an item, now or later."""
        return self._engine.FAULTS
