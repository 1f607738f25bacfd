"""Tells the store what happened to outboxes, on a thread of its own: the store may be away while jobs are deferred."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.threads import try_start
from standfast.errors import StandfastError, StoreGone
from standfast.store.store import Store
from standfast.wings.relay.outbox_marks import RELAYED, WAITING, OutboxMark, mark

log = logging.getLogger("standfast.queue")

MARK_EVERY = 1.0
"""Seconds between two writes of one process."""
TRY_EVERY = 5.0
"""Seconds between two attempts while the store is away."""
STEP = 0.1
"""Seconds for which a waiting thread may hold up the end of the process."""
IDLE_EVERY = 10.0
"""Seconds between two marks of a relay that finds nothing."""


class OutboxMarker:
    """Keeps what happened until it is written. Its thread ends when nothing is left to write."""

    def __init__(self, store: Store, open_store: Callable[[], None]) -> None:
        self._store = store
        self._open_store = open_store
        self._lock = ForkableLock()
        self._unwritten: dict[str, float] = {}
        self._relayed: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def put(self, database: str | None) -> None:
        """Note that a job was just put into the outbox of a database; one in memory has no name to note it by."""
        if database is not None:
            self._note(WAITING + database, time.monotonic())

    def relayed(self, database: str | None, began: float, *, brought: bool) -> None:
        """Note that a relay has looked into an outbox, beginning at a moment of `time.monotonic`."""
        if database is not None and (brought or began - self._relayed.get(database, -IDLE_EVERY) >= IDLE_EVERY):
            self._relayed[database] = began
            self._note(RELAYED + database, began)

    def close(self) -> None:
        """Write what is left, once, and end."""
        with self._lock:
            thread = self._thread
        self._closing.set()
        if thread is not None and thread.is_alive():
            thread.join()
        self._closing.clear()

    def _note(self, name: str, at: float) -> None:
        with self._lock:
            self._unwritten[name] = at
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name="standfast-outbox-marks")
            if not try_start(self._thread):  # the interpreter is ending
                self._thread = None

    def _run(self) -> None:
        while marks := self._take():
            written = self._write(marks)
            if not self._ending:
                self._pause(MARK_EVERY if written else TRY_EVERY)
            elif not written:
                return

    @property
    def _ending(self) -> bool:
        return self._closing.is_set() or not threading.main_thread().is_alive()

    def _pause(self, seconds: float) -> None:
        """Wait, but not once this is closed or the interpreter ends."""
        give_up = time.monotonic() + seconds
        while not self._ending and time.monotonic() < give_up:
            self._closing.wait(STEP)

    def _take(self) -> dict[str, float]:
        with self._lock:
            marks, self._unwritten = self._unwritten, {}
            if not marks:
                self._thread = None
        return marks

    def _write(self, marks: dict[str, float]) -> bool:
        """Write marks; keep them if the store is away."""
        try:
            self._open_store()
            now = time.monotonic()
            self._store.write_all(mark, [OutboxMark(name, now - at) for name, at in marks.items()]).result()
        except StoreGone as error:
            log.debug("what happened to an outbox is not noted: %s", error)
        except StandfastError as error:
            log.debug("what happened to an outbox will be noted later: %s", error)
            with self._lock:
                self._unwritten = {**marks, **self._unwritten}
            return False
        return True
