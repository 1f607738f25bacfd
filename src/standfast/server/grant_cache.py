"""A cache of recently shown tokens and sessions with their grants, so that not every request asks the store."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable

from standfast.wings.access.words import Grant

LASTS = 1.0
"""Seconds that a grant is cached.

A token or session ended by another process counts for that long; one ended by this process is forgotten at once.
"""
MOST = 1000


class GrantCache:
    """Grants by the secret shown for them. Wrong guesses are kept apart: they never push out valid ones."""

    def __init__(self, endings: Callable[[], int]) -> None:
        self._endings = endings
        self._ended = 0
        self._granted: dict[bytes, tuple[float, Grant | None]] = {}
        self._refused: dict[bytes, tuple[float, Grant | None]] = {}

    async def grant(self, shown: str, ask: Callable[[], Awaitable[Grant | None]]) -> Grant | None:
        """Return the grant for a secret, from the cache or by asking."""
        now, ended = time.monotonic(), self._endings()
        key = hashlib.sha256(shown.encode("utf-8", "surrogateescape")).digest()
        if self._ended != ended:
            self._granted.clear()
            self._refused.clear()
            self._ended = ended
        until, grant = self._granted.get(key) or self._refused.get(key, (0.0, None))
        if now < until:
            return grant
        grant = await ask()
        if ended == self._endings():  # otherwise the answer may be older than the ending
            self._keep(self._refused if grant is None else self._granted, key, (now + LASTS, grant))
        return grant

    @staticmethod
    def _keep(where: dict[bytes, tuple[float, Grant | None]], key: bytes, found: tuple[float, Grant | None]) -> None:
        if len(where) >= MOST:
            where.clear()
        where[key] = found
