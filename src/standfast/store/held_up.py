"""The requests that another transaction holds up. They wait apart from the line, so that no other waits for them.

Only the server knows what holds a request up, so it is tried again: one of them at a time, and seldom, because each try
costs the writer the time for which it waits for the lock. New jobs for a queue and thread wait behind the held-up jobs
of the same queue and thread: they would most likely meet the same lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from standfast.store.requests import Request

SHORTEST_PAUSE = 0.15
"""Seconds between two tries at least."""
PAUSES_A_TRY = 3
"""How much longer than a try the pause after it is, at least: the writer is there for the other requests."""

Lane = tuple[str, str | None]
"""A queue, and a thread of it."""


class HeldUp:
    """The held-up requests of one writer, the one that is to be tried next first."""

    def __init__(self) -> None:
        self.requests: deque[Request[Any]] = deque()
        self._next_try = 0.0

    def add(self, request: Request[Any], seconds: float) -> None:
        """Keep a request whose try took so many seconds and failed."""
        self.requests.append(request)
        self._next_try = time.monotonic() + max(SHORTEST_PAUSE, PAUSES_A_TRY * seconds)

    def seconds_left(self) -> float:
        """Return the seconds until the next try."""
        return max(0.0, self._next_try - time.monotonic())

    def is_due(self) -> bool:
        """Return whether a request should be tried now."""
        return self.seconds_left() == 0.0

    def take(self, serving: list[Request[Any]]) -> None:
        """Move the next request whose caller still waits into the writer's hands."""
        while self.requests and not serving:
            if not self.requests[0].withdrawn:
                serving.append(self.requests[0])  # before it is removed, as in `Line.join`
            self.requests.popleft()

    def divert(self, requests: list[Request[Any]]) -> None:
        """Keep those of these requests that would meet the same lock as a held-up request."""
        lanes = {lane for held in self.requests for lane in _lanes(held)}
        for request in [*requests] if lanes else ():
            if not lanes.isdisjoint(_lanes(request)):
                self.requests.append(request)  # before it is removed: the watcher of its deadline must always find it
                requests.remove(request)

    def release(self, served: Request[Any]) -> list[Request[Any]]:
        """Remove and return the requests that waited for the same lock as one that has been served now."""
        lanes = {*_lanes(served)}
        freed = [request for request in self.requests if not lanes.isdisjoint(_lanes(request))]
        for request in freed:
            self.requests.remove(request)
        return freed


def _lanes(request: Request[Any]) -> Iterable[Lane]:
    newcomers = request.script.newcomers
    return () if newcomers is None else ((job.queue, job.thread_key) for job in newcomers(request.items))
