"""How many connections a server keeps open, how much it buffers for unauthenticated clients, and for how long.

A connection is proven once a request on it showed a valid token or session. When there are too many, a newcomer
replaces the oldest unproven one that is not being answered: a crowd of slow connections loses its own places, and
keeps no one else out. One timer watches all deadlines, so that a request costs no timer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import defaultdict
from functools import lru_cache
from typing import Protocol

from starlette.types import Scope

log = logging.getLogger("standfast.server")

KEY = "standfast.connection"
"""The key of a request's connection in its scope."""
EVERY = 1.0
"""Seconds between two checks for overdue connections."""
MOST_BYTES = 64 << 20
"""Bytes held for all unproven connections together: two of the largest deliveries, and many small ones."""
GRACE = 1.0
"""Seconds that a connection has before another from the same address may take its place."""
WORDS_EVERY = 60.0
"""Seconds between two log lines about connections that had to be closed."""


class Connection(Protocol):
    """What the limits need of a connection."""

    address: str
    proven: bool
    since: float
    """When its current wait began, by the loop's clock."""
    held: int
    """Bytes of a request that is not answered yet."""

    @property
    def answering(self) -> bool:
        """Whether a whole request has arrived, and its answer is on the way to a client that reads."""

    def is_overdue(self, now: float) -> bool:
        """Return whether what the connection waits for is late."""

    def overdue(self) -> None:
        """Refuse the request that is late, and close."""

    def overfull(self) -> None:
        """Refuse a request because there is no room for it, and close."""

    def abort(self) -> None:
        """Close at once."""


class Connections:
    """The open connections of one server."""

    def __init__(self, most: int, per_address: int, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._per_address = per_address
        self._most_bytes = most_bytes
        self._open: set[Connection] = set()
        self._unproven: dict[Connection, None] = {}
        self._by_address: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._bytes = 0
        self._closed_for_room = 0
        self._said_at = -WORDS_EVERY
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, newcomer: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Admit a connection, replacing another if there are too many; if all others are proven, refuse the newcomer.

        If all unproven connections are being answered, the oldest goes: else endless requests would keep others out.

        An address may exceed its limit for a moment: many callers may connect at once, with their requests on the way.
        """
        theirs = self._by_address[newcomer.address]
        full = len(self._open) >= self._most
        victim = self._least(theirs, loop.time() - GRACE) if len(theirs) >= self._per_address else None
        if full and victim is None:
            victim = self._least(self._unproven, loop.time()) or next(iter(self._unproven), newcomer)
        self._open.add(newcomer)
        self._unproven[newcomer] = theirs[newcomer] = None
        if victim is not None:
            self._close(victim)
        if self._timer is None:
            self._timer = loop.call_later(EVERY, self._look, loop)

    def _close(self, connection: Connection) -> None:
        self._say()
        self.leave(connection)  # at once: the next newcomer must find another
        connection.abort()

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        self.prove(connection)

    def prove(self, connection: Connection) -> None:
        """Note that a connection is proven, and must not be closed to make room."""
        self.release(connection)
        self._unproven.pop(connection, None)
        theirs = self._by_address[connection.address]
        theirs.pop(connection, None)
        if not theirs:
            del self._by_address[connection.address]

    def hold(self, connection: Connection, size: int) -> None:
        """Count bytes of an unproven connection. Above the limit, the oldest with more than its share is refused."""
        connection.held += size
        self._bytes += size
        if self._bytes > self._most_bytes:
            self._say()
            share = self._bytes / len(self._unproven)
            next(each for each in self._unproven if each.held >= share).overfull()

    def release(self, connection: Connection) -> None:
        """Stop counting the bytes of a request: it is answered, or its connection is proven."""
        self._bytes -= connection.held
        connection.held = 0

    @staticmethod
    def _least(among: dict[Connection, None], before: float) -> Connection | None:
        """Return the oldest of some connections that is not being answered, and has waited since `before`.

        All are checked, which takes a tenth of a millisecond for a thousand: if only some of the oldest were, a client
        that keeps those busy would keep everybody else out.
        """
        return next((each for each in among if not each.answering and each.since <= before), None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer = loop.call_later(EVERY, self._look, loop) if self._open else None
        for each in [each for each in self._open if each.is_overdue(now)]:
            each.overdue()

    def _say(self) -> None:
        """Log now and then that connections had to be closed."""
        self._closed_for_room += 1
        if time.monotonic() - self._said_at >= WORDS_EVERY:
            self._said_at = time.monotonic()
            log.warning(
                "%d connections that had shown no token were closed for new ones, now %d are open; if these are yours, "
                "raise connections or connections_per_address in [server] of standfast.toml",
                self._closed_for_room,
                len(self._open),
            )
            self._closed_for_room = 0


def prove(scope: Scope) -> None:
    """Note that a request's connection is proven, if the server limits its connections."""
    connection = scope.get(KEY)
    if connection is not None and not connection.proven:
        connection.prove()


@lru_cache(maxsize=4096)
def group(address: str) -> str:
    """Return the group that an address counts for: with IPv6, every client has a whole network of addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)
