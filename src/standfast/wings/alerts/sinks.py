"""Which surfaces work: each delivery reports its outcome, and the store keeps since when a surface fails.

A failure is not written more often than every few seconds: a dead sink may have thousands of deliveries. A successful
delivery always checks whether the sink was thought dead: another process may have failed, and written that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from standfast.clock import Clock
from standfast.errors import StoreUnavailable
from standfast.outcome import Failed
from standfast.redact import redacted_text
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.scripts import Word

LONGEST_REASON = 200
NOTED_EVERY = 10.0
"""Seconds between two records of the same sink's failure."""

Sent = dict[str, Any] | Failed


class Sinks:
    """Notes how deliveries went."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._failed: dict[str, float] = {}
        """When each sink's failure was last recorded; sinks that worked since are not here."""

    async def sent(self, name: str, sending: Awaitable[Sent]) -> Sent:
        """Await a delivery to a sink, and note its outcome; a delivery that was cut off says nothing."""
        why: str | None = None
        try:
            outcome = await sending
            why = outcome.failure.message if isinstance(outcome, Failed) else None
        finally:
            error = sys.exception()
            if not isinstance(error, asyncio.CancelledError):
                await self._note(name, why if error is None else f"{type(error).__name__}: {error}")
        return outcome

    async def _note(self, name: str, why: str | None) -> None:
        """Record the outcome if it is news; a store that is away learns of it at a later delivery."""
        with suppress(StoreUnavailable):
            if why is None:
                await self._took(name)
            else:
                await self._note_refusal(name, why)

    async def _took(self, name: str) -> None:
        self._failed.pop(name, None)
        if any(failing == name for failing, *_ in await self._store.read(alerts.sinks())):
            await self._store.write(alerts.note_sinks, Word(name))

    async def _note_refusal(self, name: str, why: str) -> None:
        now = self._clock.elapsed()
        if now - self._failed.get(name, -NOTED_EVERY) >= NOTED_EVERY:
            await self._store.write(alerts.note_sinks, Word(name, redacted_text(why, longest=LONGEST_REASON)))
            self._failed[name] = now
