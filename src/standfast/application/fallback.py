"""When nothing can be stored: call the caller's fallback, count it, and write the count once the store is back."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar

from standfast.concurrency.flows import run_on_loop
from standfast.concurrency.locks import ForkableLock
from standfast.errors import Backpressure, ConfigurationError, StoreClosed, StoreMoved, StoreUnavailable
from standfast.job import Receipt
from standfast.store.store import Store
from standfast.typed.job_options import Otherwise
from standfast.wings.jobs.scripts import count_fallbacks

log = logging.getLogger("standfast.queue")

Answer = TypeVar("Answer")
FALLBACK = Receipt(None, "fallback", None)


def check_otherwise(otherwise: Otherwise) -> None:
    """Refuse a fallback that cannot be called, now rather than when the store is away."""
    if not callable(otherwise):
        raise ConfigurationError(f"otherwise must be a function without arguments, not {otherwise!r}")
    try:
        signature = inspect.signature(otherwise)
    except (TypeError, ValueError):  # written in C, without a signature
        return
    try:
        signature.bind()
    except TypeError as error:
        raise ConfigurationError(
            f"otherwise is called without arguments, and {otherwise!r} asks for some ({error}); wrap it in a lambda"
        ) from error


class Fallbacks:
    """Counts the calls of this process that went to their fallback, until the store has counted them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.untold: Counter[str] = Counter()
        self._lock = ForkableLock()

    async def unless_stored(
        self, queue: str, otherwise: Otherwise, stored: Awaitable[Answer], instead: Answer
    ) -> Answer:
        """Return what was stored; if it is certain that nothing was, call the fallback and return `instead`."""
        try:
            return await stored
        except (StoreUnavailable, Backpressure) as error:
            self._go_on(queue, error)
        answer = otherwise()
        if inspect.isawaitable(answer):
            await run_on_loop(answer)
        return instead

    def _go_on(self, queue: str, error: StoreUnavailable | Backpressure) -> None:
        """Count and log a fallback; raise instead if the job may be stored: otherwise both would happen.

        A store that has moved, or was closed here, will not be back: its callers must see the error.
        """
        if isinstance(error, StoreMoved | StoreClosed) or (isinstance(error, StoreUnavailable) and not error.definite):
            raise error
        with self._lock:
            self.untold[queue] += 1
        log.warning("a call for queue %s goes to its fallback: %s", queue, error, extra={"queue": queue})

    async def tell(self) -> None:
        """Write the counts to the store; keep them while it cannot take them."""
        with self._lock:
            counts, self.untold = self.untold, Counter()
        if not counts:
            return
        try:
            await self._store.write_all(count_fallbacks, list(counts.items()))
        except StoreUnavailable as error:
            log.warning("%d fallbacks are not counted in the store yet: %s", counts.total(), error)
            if error.definite:
                with self._lock:
                    self.untold += counts
