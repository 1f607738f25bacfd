"""What people do with alerts: list them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.phrasing import shown
from standfast.wings.alerts.words import Condition, Key


class Alerts:
    """Open alerts: `list`."""

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        find: Callable[[Store], Awaitable[Mapping[Key, Condition]]],
    ) -> None:
        self._store = store
        self._ready = ready
        self._find = find

    async def list(self) -> list[dict[str, Any]]:
        """List open alerts, the most harmful first, each with its present values."""
        await self._ready()
        seen = await self._find(self._store)
        found = shown(await self._store.read(alerts.standing()), self._store.skew(), seen)
        return sorted(found, key=lambda each: -each["severity"])
