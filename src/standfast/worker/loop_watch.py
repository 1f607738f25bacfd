"""Notices when the event loop is blocked. A handler that blocks it silently stops every queue of its worker."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from standfast.job import Claim

log = logging.getLogger("standfast.worker")

LOOK_EVERY = 0.25
BLOCKED_AFTER = 1.0


class Watch:
    """Checks from its own thread that the loop responds while handlers run, and names the handler that blocks it."""

    def __init__(
        self,
        busy: Callable[[], bool],
        attempt: Callable[[asyncio.Task[object]], Claim | None],
        on_report: Callable[[], None],
    ) -> None:
        self._busy = busy
        self._attempt = attempt
        self._on_report = on_report
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._culprit: str | None = None
        self._unreported: str | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, args=(loop,), name="standfast-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; calling this again does nothing."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def report(self) -> str | None:
        """Return the handler, as queue/handler, that blocks the loop, or did since the last call."""
        unreported, self._unreported = self._unreported, None
        return self._culprit or unreported

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.wait(LOOK_EVERY):
            if loop.is_closed():
                return
            if self._busy():
                self._look(loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        alive, since = threading.Event(), time.monotonic()
        try:
            loop.call_soon_threadsafe(alive.set)
        except RuntimeError:  # the loop was closed meanwhile
            return
        if alive.wait(BLOCKED_AFTER):
            return
        self._name(loop)
        while not (self._stopping.is_set() or loop.is_closed() or alive.wait(LOOK_EVERY)):
            pass
        if self._culprit is not None:
            log.warning("the event loop goes on; %s had held it up for %.1f s", self._culprit, time.monotonic() - since)
        self._culprit = None

    def _name(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report what blocks the loop, if that is a handler; the application knows its own blocking tasks."""
        task = asyncio.current_task(loop)
        claim = None if task is None else self._attempt(task)
        if claim is None:
            return
        self._culprit = self._unreported = f"{claim.queue}/{claim.handler}"
        log.warning(
            "handler %s (job %s) blocks the event loop, and every queue of this worker waits for it: let it await, or "
            "make it a plain def, which runs in a thread",
            *(self._culprit, claim.id),
            extra=claim.log_fields,
        )
        self._on_report()
