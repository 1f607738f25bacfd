"""Leading: a caller that is nearly alone and meets an idle writer runs the round itself, in its own turn.

Waking the writer and being woken by it takes two hand-offs between threads, more time than a small commit. A led round
waits for nobody: not for another process, and not for the writer. Whatever goes wrong is left to the writer, which
knows how to try again. A commit that is led keeps the caller's loop from its other work for as long as it takes, so
only a few small requests are led, and none while commits are slow.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from standfast.store.requests import Line, Request

MOST_LED = 8
"""Items of a led round: beyond that the hand-offs are shared by many, and the loop has better things to do."""
SLOWEST_LED = 0.001
"""Seconds that recent commits may have taken: a loop is not kept longer than that, as far as can be known."""
UNKNOWN_PACE = 0.0005

Serve = Callable[[list[Request[Any]]], list[Request[Any]]]
"""Runs a round that waits for nobody; gives back the requests that it could not serve."""


class Leader:
    """Decides who runs the next round: a caller, or the writer. `round_` is held by whoever does."""

    def __init__(self, line: Line, round_: threading.Lock, serve: Serve) -> None:
        self._line = line
        self._round = round_
        self._serve = serve
        self._pace = UNKNOWN_PACE
        self._planned_by: asyncio.AbstractEventLoop | None = None
        self._planned_items = 0

    def offer(self, request: Request[Any]) -> bool:
        """Plan to lead a round for this request, if that is quicker; else it is the writer's."""
        if not (request.script.leads and request.size <= MOST_LED and self._pace < SLOWEST_LED):
            return False
        loop = request.loop
        if loop is not None and loop is self._planned_by:  # others of the same turn share its round
            self._planned_items += request.size
            if self._planned_items > MOST_LED:  # too many: the writer begins at once
                self._planned_by = None
                return False
            self._line.add(request)
            return True
        if not self._line.is_idle:
            return False
        self._line.add(request)
        if loop is None:
            self._lead()
        else:
            self._planned_by, self._planned_items = loop, request.size
            loop.call_soon(self._lead)
        return True

    def _lead(self) -> None:
        """Run the round that was planned, unless the writer is at it already or more has come than is led."""
        self._planned_by = None
        if not self._round.acquire(blocking=False):
            self._line.wake()
            return
        try:
            pending = self._line.lead(MOST_LED)
            if pending:
                began = time.monotonic()
                unserved = self._serve(pending)
                self._pace = (self._pace + time.monotonic() - began) / 2
                if unserved:
                    self._line.return_first(unserved)
        finally:
            self._round.release()
        if not self._line.empty():
            self._line.wake()

    def took(self, requests: Sequence[Request[Any]], seconds: float) -> None:
        """Take note of how long a round of the writer took that could have been led: commits may be quick again."""
        if all(request.script.leads for request in requests) and sum(each.size for each in requests) <= MOST_LED:
            self._pace = (self._pace + seconds) / 2
