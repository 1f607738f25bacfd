"""What was shown lately, and what it stands for, so that not every request asks the store."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable

from standfast.wings.access.words import Grant

LASTS = 1.0
"""Seconds a grant is remembered.

A token or session that ends in another process counts for so long; one that ends in this process is forgotten at once.
"""
MOST = 1000


class GrantCache:
    """Grants by what was shown for them. Wrong guesses are kept apart: they never push out what is right."""

    def __init__(self, endings: Callable[[], int]) -> None:
        self._endings = endings
        self._ended = 0
        self._granted: dict[bytes, tuple[float, Grant | None]] = {}
        self._refused: dict[bytes, tuple[float, Grant | None]] = {}

    async def grant(self, shown: str, ask: Callable[[], Awaitable[Grant | None]]) -> Grant | None:
        """Tell what something stands for, or ask."""
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
        if ended == self._endings():  # else what was read may be of before
            self._keep(self._refused if grant is None else self._granted, key, (now + LASTS, grant))
        return grant

    @staticmethod
    def _keep(where: dict[bytes, tuple[float, Grant | None]], key: bytes, found: tuple[float, Grant | None]) -> None:
        if len(where) >= MOST:
            where.clear()
        where[key] = found
