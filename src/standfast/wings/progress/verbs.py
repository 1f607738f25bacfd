"""`job.progress(0.4, "note")`: the first report is written at once, later ones once a second; the newest counts.

Nothing waits for these writes, and a handler never fails because of them: they are for people. A report that is not
written when the attempt ends is carried by its end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from typing import Any

import msgspec

from standfast.concurrency.locks import ForkableLock
from standfast.errors import StoreUnavailable
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.store.store import Store
from standfast.wings.progress.rules import checked
from standfast.wings.progress.scripts import LastReport, ProgressReport, write_reports

log = logging.getLogger("standfast.worker")

EVERY = 1.0
"""Seconds between two writes for one attempt."""
MOST_KNOWN = 1000
"""With more attempts than this, the times of writes that are long past are forgotten."""

Attempt = tuple[int, int]
"""A job's number, and the token of the attempt."""


class ProgressReports:
    """Writes what the attempts of one process report."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = ForkableLock()
        self._written: dict[Attempt, float] = {}
        self._waiting: dict[Attempt, ProgressReport] = {}
        self._being_written: dict[Attempt, ProgressReport] = {}
        """The reports that the timer's thread took, and may not have handed to the store yet."""
        self._timer_of: int | None = None
        """The process whose timer is running."""

    def report(self, claim: Claim, fraction: float, note: str | None) -> None:
        """Take a report of an attempt. This may be called on any thread, and does not block."""
        said = ProgressReport(claim.n, claim.token, claim.attempts, *checked(claim, fraction, note))
        with self._lock:
            first = self._is_first(said)
            if first and _on_loop():
                self._waiting.pop((said.n, said.token), None)  # the waiting one is older
                self._store.write(write_reports, said).start().add_done_callback(_met)
                return
            self._waiting[said.n, said.token] = said
            self._start_timer(0.0 if first else EVERY)

    def add_to_end(self, end: Transition) -> Transition:
        """Make the end of an attempt carry its last report, unless the store has that already.

        Such an end does not take the short way of writing, which changes nothing but the job itself.
        """
        whose = (end.n, end.token)
        with self._lock:
            said = self._waiting.pop(whose, None) or self._being_written.get(whose)
        return end if said is None else msgspec.structs.replace(end.carrying(LastReport(said)), plain=False)

    def _is_first(self, said: ProgressReport) -> bool:
        """Return whether no report of the attempt was written lately; from now on one was."""
        now = time.monotonic()
        if len(self._written) > MOST_KNOWN:
            self._written = {whose: at for whose, at in self._written.items() if now - at < EVERY}
        if now - self._written.get((said.n, said.token), -math.inf) < EVERY:
            return False
        self._written[said.n, said.token] = now
        return True

    def _start_timer(self, seconds: float) -> None:
        if self._timer_of == os.getpid():
            return
        timer = threading.Timer(seconds, self._write_waiting)
        timer.daemon = True
        timer.start()
        self._timer_of = os.getpid()

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting, self._timer_of = self._waiting, {}, None
            self._being_written |= waiting
            self._written |= dict.fromkeys(waiting, time.monotonic())
        if not waiting:  # the ends of their attempts carry them
            return
        try:
            self._store.write_all(write_reports, list(waiting.values())).result()
        except StoreUnavailable as error:
            _missed(error)
        finally:
            self._forget_written(waiting)

    def _forget_written(self, reports: dict[Attempt, ProgressReport]) -> None:
        with self._lock:
            for whose, said in reports.items():
                if self._being_written.get(whose) is said:
                    del self._being_written[whose]


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _met(writing: asyncio.Future[Any]) -> None:
    error = None if writing.cancelled() else writing.exception()
    if error is not None:
        _missed(error)


def _missed(error: BaseException) -> None:
    log.debug("how far a job is could not be written, and is not tried again: %s", error)
