"""Claims on a connection of their own: the server takes jobs for a worker while it still writes the ends of others.

A claim and an end of one process meet as those of two processes do: each is a transaction of its own, and the locks and
tokens of the rows keep them apart. A process that never claims has no second connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from standfast.clock import Clock
from standfast.store.hints import Hint
from standfast.store.postgres.postgres_engine import PostgresEngine
from standfast.store.postgres.server import Server
from standfast.store.postgres.server_time import ServerTime
from standfast.store.requests import Request
from standfast.store.scripts import Anchor, RoundScripts


class ClaimWriter(PostgresEngine):
    """Writes the claims of a process. It has no readers: those are the engine's whose claims it writes."""

    def __init__(
        self,
        server: Server,
        clock: Clock,
        scripts: RoundScripts,
        *,
        time: ServerTime,
        anchor: Anchor,
        listeners: list[Callable[[Hint], None]],
    ) -> None:
        super().__init__(server, clock, scripts)
        self._time = time
        self.anchor = anchor
        self._listeners = listeners

    def open(self) -> None:
        """Start the writer, which connects when it has a claim to write."""
        self._start()

    def _shut(self) -> None:
        """Keep the anchor open: the other writer goes on after this one, and may have decisions to note."""
        self._drop_connection()

    def _pause_readers(self, seconds: float) -> bool:  # noqa: ARG002 - there are none to wait for
        return True

    def _resume_readers(self) -> None:
        """Do nothing: there are none."""


class TwoWriters(PostgresEngine):
    """The engine of a process: one writer for its claims, one for everything else."""

    def __init__(self, server: Server, clock: Clock, scripts: RoundScripts, audit_file: str | None = None) -> None:
        self._claims: ClaimWriter | None = None
        self._takes_claims = True
        self._starting = threading.Lock()
        """Held while the second writer is started, and while it must not be."""
        self._own_trouble: str | None = None
        super().__init__(server, clock, scripts, audit_file)

    @property
    def trouble(self) -> str | None:
        """What either writer last met and has not yet got over."""
        return self._own_trouble or (None if self._claims is None else self._claims.trouble)

    @trouble.setter
    def trouble(self, trouble: str | None) -> None:
        self._own_trouble = trouble

    def put(self, request: Request[Any]) -> None:
        """Have a claim written by the writer of claims, and everything else by the other."""
        writer = (self._claims or self._start_claims()) if request.script is self._scripts.claim else None
        if writer is None:
            super().put(request)
        else:
            request.apart = True  # of two that wait, the first is answered, and runs, while the second is claimed
            writer.put(request)

    def _start_claims(self) -> ClaimWriter | None:
        """Start the second writer, unless the engine is being closed."""
        with self._starting:
            if self._claims is None and self._takes_claims:
                claims = ClaimWriter(
                    *(self._server, self._clock, self._scripts),
                    time=self._time,
                    anchor=self.anchor,
                    listeners=self._listeners,
                )
                claims.open()
                self._claims = claims
            return self._claims

    def pause(self) -> bool:
        """Let go of every handle of both writers, and start no writer before `resume`."""
        self._starting.acquire()
        if super().pause():
            if self._claims is None or self._claims.pause():
                return True
            super().resume()
        self._starting.release()
        return False

    def resume(self) -> None:
        """Go on with both."""
        if self._claims is not None:
            self._claims.resume()
        super().resume()
        self._starting.release()

    def close(self) -> None:
        """Serve what waits, claims first, then let go of the database."""
        with self._starting:
            self._takes_claims = False
        if self._claims is not None:
            self._claims.close()
        super().close()
