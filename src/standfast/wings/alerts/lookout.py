"""Looks for problems every few seconds, in every process that works or serves; one process looks at a time.

`find` finds the problems; `rules.changes` says which began and which ended. That is written first and announced
afterwards: if a process is killed in between, the next process that looks announces it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from standfast.clock import Clock
from standfast.spine.ids import IDS
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.rules import Changes, changes
from standfast.wings.alerts.scripts import Observation
from standfast.wings.alerts.words import Condition, Key

EVERY = 10.0
"""Seconds between two looks."""
TURN = 9.0
"""Seconds for which no other process looks: a little less than EVERY, so that a single process keeps its pace."""
GAP = 3 * EVERY
"""After this many seconds without a look, the first look begins no alerts: the machine slept, or everything was
stopped, and workers and sweepers get time to come back."""


class Lookout:
    """Finds alerts. Any process may look, and all do: without a leader, and without doing it twice."""

    def __init__(self, store: Store, clock: Clock, find: Callable[[Store], Awaitable[Mapping[Key, Condition]]]) -> None:
        self._store = store
        self._clock = clock
        self._find = find

    async def look(self) -> None:
        """Look once, unless another process just did; write which alerts began, and which ended."""
        last = await self._store.read(alerts.last_turn())
        if last is not None and last > self._store.now():
            return
        held = await self._store.write(alerts.take_turn, TURN)
        if held is None:
            return
        seen = await self._find(self._store)
        now = self._store.now()
        was_open = await self._store.read(alerts.standing())
        found = changes(was_open, seen, now, begin=last is not None and now - last <= GAP)
        if found:
            await self._store.write(alerts.observe, self._observation(held, found))

    def _observation(self, held: float, found: Changes) -> Observation:
        return Observation(
            held,
            begins=tuple((IDS.mint(self._clock.wall()), condition) for condition in found.begins),
            goes_on=found.goes_on,
            clears=found.clears,
            ends=tuple((each.id, each.condition) for each in found.ends),
        )
