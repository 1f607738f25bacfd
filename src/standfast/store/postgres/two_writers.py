"""Claims on a separate connection: the server takes jobs for a worker while it still writes the ends of others.

A claim and an end in one process meet like those of two processes: each is a transaction of its own, and row locks and
tokens keep them apart. A process that never claims has no second connection.
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
    """Writes the claims of a process. It has no readers of its own: the engine that it belongs to has them."""

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
        """Start the writer; it connects when it has a claim to write."""
        self._start()

    def _shut(self) -> None:
        """Keep the anchor open: the other writer stops after this one, and may still have decisions to note."""
        self._drop_connection()

    def _pause_readers(self, seconds: float) -> bool:  # noqa: ARG002 - there are none to wait for
        return True

    def _resume_readers(self) -> None:
        """Do nothing, because it has no readers."""


class TwoWriters(PostgresEngine):
    """The engine of a process: one writer for claims, and one for everything else."""

    def __init__(self, server: Server, clock: Clock, scripts: RoundScripts, audit_file: str | None = None) -> None:
        self._claims: ClaimWriter | None = None
        self._takes_claims = True
        self._starting = threading.Lock()
        """Held while the second writer is being started, and while it must not be started."""
        self._own_trouble: str | None = None
        super().__init__(server, clock, scripts, audit_file)

    @property
    def trouble(self) -> str | None:
        """The last error that either writer has not recovered from yet."""
        return self._own_trouble or (None if self._claims is None else self._claims.trouble)

    @trouble.setter
    def trouble(self, trouble: str | None) -> None:
        self._own_trouble = trouble

    def put(self, request: Request[Any]) -> None:
        """Hand a claim to the claim writer, and every other request to the other writer."""
        writer = (self._claims or self._start_claims()) if request.script is self._scripts.claim else None
        if writer is None:
            super().put(request)
        else:
            request.apart = True  # while the second of two claims is served, the jobs of the first run
            writer.put(request)

    def _start_claims(self) -> ClaimWriter | None:
        """Start the second writer, unless the engine is closing."""
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
        """Close every handle of both writers, and start no writer before `resume`."""
        self._starting.acquire()
        if super().pause():
            if self._claims is None or self._claims.pause():
                return True
            super().resume()
        self._starting.release()
        return False

    def resume(self) -> None:
        """Continue with both writers."""
        if self._claims is not None:
            self._claims.resume()
        super().resume()
        self._starting.release()

    def close(self) -> None:
        """Serve the waiting requests, claims first, then close the database."""
        with self._starting:
            self._takes_claims = False
        if self._claims is not None:
            self._claims.close()
        super().close()
