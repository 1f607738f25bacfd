"""Expensive questions, asked in the background: visitors share one answer, and no page waits for it for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

FRESH = 1.0
"""Seconds for which an answer counts as fresh."""
SHARE = 5
"""An answer stays fresh this many times as long as it took: computing figures must not be most of the load."""
STALE = 60.0
"""Seconds after which waiting is better than showing an old answer."""
PATIENCE = 0.08
"""Seconds that a page waits for a new answer while it has an old one to show."""
MOST_KEPT = 100
MOST_GOING = 8
"""Optional questions under way at once; a visitor may vary one in many ways."""

Ask = Callable[[], Awaitable[Any]]


class CachedAnswer(NamedTuple):
    """An answer, how many seconds old it is, and how long it took."""

    age: float
    value: Any
    took: float

    @property
    def fresh(self) -> bool:
        """Whether it is as good as a new one."""
        return self.age < max(FRESH, SHARE * self.took)


class SharedCache:
    """Asks each question only once at a time, however many visitors want the answer."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[float, float, Any]] = {}
        self._going: dict[object, asyncio.Task[Any]] = {}
        self._outdated: set[asyncio.Task[Any]] = set()
        """Questions asked before the last change; their answers are thrown away."""

    def forget(self) -> None:
        """Ask everything again: something changed, and the next visitor must see it."""
        self._known.clear()
        self._outdated |= {*self._going.values()}
        self._going.clear()

    async def get(self, key: object, ask: Ask) -> CachedAnswer:
        """Return the answer: fresh, or old if a fresh one takes long. Without an old answer, wait."""
        found = await self._get(key, ask, None if self._recent(key) is None else PATIENCE)
        while found is None:
            found = await self._get(key, ask, None)
        return found

    async def get_soon(self, key: object, ask: Ask, patience: float | None = PATIENCE) -> CachedAnswer | None:
        """Return the answer and its age; None if there is none yet and it takes longer than a visitor would wait.

        While many other questions are under way it is not asked at all; a page that is redrawn tries again.
        """
        if key not in self._going and len(self._going) >= MOST_GOING:
            return self._recent(key)
        return await self._get(key, ask, patience)

    async def _get(self, key: object, ask: Ask, patience: float | None) -> CachedAnswer | None:
        known = self._recent(key)
        if known is None or not known.fresh:
            await self._refresh(key, ask, patience)
        return self._recent(key)

    async def _refresh(self, key: object, ask: Ask, patience: float | None) -> None:
        going = self._going.get(key)
        if going is None:
            going = self._going[key] = asyncio.ensure_future(ask())
            began = time.monotonic()
            going.add_done_callback(lambda done: self._keep(key, began, done))
        done, _ = await asyncio.wait([going], timeout=patience)
        for each in done:
            each.result()  # the page reports what could not be answered

    def _recent(self, key: object) -> CachedAnswer | None:
        if key not in self._known:
            return None
        at, took, value = self._known[key]
        age = time.monotonic() - at
        return CachedAnswer(age, value, took) if age < STALE else None

    def _keep(self, key: object, began: float, done: asyncio.Task[Any]) -> None:
        if done in self._outdated:
            self._outdated.discard(done)
            return
        self._going.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            self._known.pop(key, None)
            return
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        now = time.monotonic()
        self._known[key] = (now, now - began, done.result())

    async def close(self) -> None:
        """Stop asking."""
        going = [*self._going.values(), *self._outdated]
        for each in going:
            each.cancel()
        await asyncio.gather(*going, return_exceptions=True)
