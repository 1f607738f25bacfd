"""Browsers that signed in: each gets its own secret, which is not a token, is valid at one address and expires soon."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress

from standfast.errors import StoreUnavailable
from standfast.store.store import Store
from standfast.wings.access.words import Grant, fingerprint
from standfast.wings.tokens import session_scripts
from standfast.wings.tokens.session_scripts import NewSession, Renewal
from standfast.wings.tokens.verbs import Tokens

RENEWED_AFTER = 0.1
"""The share of the idle time that must pass before a use is written: not every page view is a write."""


class BrowserSessions:
    """Opens, checks and closes sessions. `idle` and `lifetime` are seconds."""

    def __init__(
        self, store: Store, ready: Callable[[], Awaitable[None]], tokens: Tokens, *, idle: float, lifetime: float
    ) -> None:
        self._store = store
        self._ready = ready
        self._tokens = tokens
        self._idle = idle
        self._lifetime = lifetime
        self.closed = 0
        """How many sessions were closed here: a cache of grants is cleared when this changes."""

    async def open(self, token: str, audience: str, *, replaces: str | None = None) -> str:
        """Sign a browser in at an address, with a token's id; return the secret of its new session.

        `replaces` is the secret that the browser showed before: that session ends, so that it cannot be used again.
        """
        secret = secrets.token_urlsafe(32)
        await self._ready()
        before = None if replaces is None else fingerprint(replaces)
        session = NewSession(
            hash=fingerprint(secret),
            token=token,
            audience=audience,
            replaces=before,
            idle=self._idle,
            lifetime=self._lifetime,
        )
        await self._store.write(session_scripts.open_, session)
        self.closed += replaces is not None
        return secret

    async def grant(self, secret: str, audience: str, *, renew: bool = True) -> Grant | None:
        """Return the grant of a session at an address; None if it has ended, or its token is no longer valid."""
        await self._ready()
        hashed, now = fingerprint(secret), self._store.now()
        found = await self._store.read(session_scripts.one(hashed, audience))
        if found is None or found.expires_at <= now:
            return None
        granted = self._tokens.current_grant(found.token)
        if renew and granted is not None and found.expires_at - now < self._idle * (1 - RENEWED_AFTER):
            with suppress(StoreUnavailable):  # it is valid now all the same; the next use tries again
                await self._store.write(session_scripts.renew, Renewal(hashed, self._idle))
        return granted

    async def close(self, secret: str) -> None:
        """Sign a browser out, at every server of the store."""
        await self._ready()
        await self._store.write(session_scripts.close, fingerprint(secret))
        self.closed += 1
