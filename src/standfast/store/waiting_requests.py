"""The requests that wait for a round, and the choice of who runs it: the writer thread, or a caller in its own turn.

A caller that is nearly alone and finds the writer idle runs the round itself: it leads. Waking the writer and being
woken by it takes two hand-offs between threads, more time than a small commit. A led round never waits, neither for
another process nor for the writer. If anything goes wrong, it is left to the writer, which knows how to try again. A
led commit keeps the caller's loop from other work for as long as it takes, so only a few small requests are led, and
none while commits are slow.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any

from standfast.errors import StoreClosed
from standfast.store.held_up import HeldUp
from standfast.store.requests import NEVER, Request, deliver

MOST_LED = 8
"""The most items in a led round. With more, many calls share the hand-offs, and the loop has better things to do."""
SLOWEST_LED = 0.001
"""The longest that recent commits may have taken, in seconds: as far as can be known, a loop waits no longer."""
SLOWEST_AFTER_PAUSE = 0.0025
"""The same after no round was led for `PAUSE`. A disk and a processor that rested are slower, and a loop that had
nothing to write can spare the time for one commit now and then; a stream of such commits would take all its time."""
PAUSE = 0.01
UNKNOWN_PACE = 0.0005

_size, _may_be_led, _queue = attrgetter("size"), attrgetter("script.leads"), attrgetter("queue")

Serve = Callable[[list[Request[Any]]], list[Request[Any]]]
"""Runs a round that never waits; returns the requests that it could not serve."""


class Line:
    """The requests that wait for the writer. Any thread adds them; the writer takes them, or a caller in its place.

    The writer sleeps only if no request waits. Adding one then wakes it; otherwise, adding costs next to nothing.
    """

    def __init__(self) -> None:
        self.waiting: deque[Request[Any]] = deque()
        self.held_up = HeldUp()
        self.sleeping = False
        """Whether the writer sleeps: then no request waits, or it is about to be woken."""
        self._serving: list[Request[Any]] = []
        self._led: list[Request[Any]] = []
        self._wake: SimpleQueue[None] = SimpleQueue()
        self.wake_at_once = self._wake.put
        """Wakes the writer in one step, which no signal can interrupt; its argument is None."""
        self._closed = False

    def put(self, request: Request[Any], *, for_writer: bool = True) -> None:
        """Queue a request. Wake the writer if it is asleep and should serve it."""
        if self._closed:
            raise StoreClosed
        self.waiting.append(request)
        if for_writer and self.sleeping:
            self.sleeping = False
            self._wake.put(None)

    def return_first(self, requests: Sequence[Request[Any]]) -> None:
        """Put requests that were not served back at the front."""
        self.waiting.extendleft(reversed(requests))

    def wake(self) -> None:
        """Make the writer check for requests."""
        self.sleeping = False
        self._wake.put(None)

    def sleep(self) -> None:
        """Sleep until a request waits, a held-up request should be tried again, or the writer is woken."""
        self.sleeping = True
        if not self.waiting:
            if not self.held_up.requests:
                self._wake.get()
            else:
                with suppress(Empty):
                    self._wake.get(timeout=self.held_up.seconds_left())
        self.sleeping = False

    def join(self, serving: list[Request[Any]], most: int) -> None:
        """Move waiting requests into the writer's hands, up to `most` items in all."""
        self._serving = serving
        items = sum(map(_size, serving))
        while self.waiting and items < most:
            request = self.waiting[0]
            if serving and (request.apart or serving[-1].apart):
                return
            serving.append(request)  # before it is removed: the watcher of its deadline must always find it
            self.waiting.popleft()
            items += request.size
        if self.held_up.requests:
            self.held_up.divert(serving)

    def join_held_up(self, serving: list[Request[Any]]) -> None:
        """Move the held-up request that is to be tried next into the writer's hands."""
        self._serving = serving
        self.held_up.take(serving)

    def lead(self, most: int) -> list[Request[Any]]:
        """Move all waiting requests into a caller's hands, if each may be led and they have at most `most` items.

        This does not concern the requests that the writer still holds in order to try them again.
        """
        waiting = [*self.waiting]
        items = 0
        for request in waiting:
            items += request.size
            if items > most or not request.script.leads:
                return []
        self._led = waiting
        for _ in waiting:
            self.waiting.popleft()
        return waiting

    def return_led(self) -> None:
        """Put the requests of a led round that a signal interrupted back at the front.

        Answered requests have left the round already, and a standing claim that no round took waits elsewhere.
        """
        left = [each for each in self._led if not (each in self.waiting or is_standing(each))]
        self._led = []
        self.return_first(left)

    def close(self) -> None:
        """Refuse what came while the writer was stopping, and what comes later: its caller would wait forever."""
        self._closed = True
        while self.waiting:  # one by one: a caller that was not refused yet may still add one
            deliver([(self.waiting.popleft(), StoreClosed())])

    def unanswered(self, loop: asyncio.AbstractEventLoop) -> list[Request[Any]]:
        """Return every request of a loop that has no answer yet."""
        known = dict.fromkeys([*self.waiting, *self.held_up.requests, *self._serving, *self._led])
        return [request for request in known if request.loop is loop and not request.future.done()]


class StandingClaims:
    """Claims of idle workers that wait for a round with work for them, and then share its transaction.

    A claim is taken out either by a round or by the worker that withdraws it, never by both.
    """

    def __init__(self) -> None:
        self.waiting: dict[Request[Any], None] = {}

    def put(self, request: Request[Any]) -> None:
        """Let a claim wait for work in one of its queues."""
        self.waiting[request] = None

    def withdraw(self, request: Request[Any]) -> bool:
        """Withdraw a claim; return False if a round has taken it and will answer it."""
        return self.waiting.pop(request, request) is None

    def take(self, queues: AbstractSet[str], pending: list[Request[Any]]) -> None:
        """Add the claims that wait for work in any of these queues to the pending requests of a round.

        A worker whose loop has stopped would start nothing, and its claim would keep jobs from all other workers. A
        closed loop never runs again, so its claims are dropped.
        """
        for request in [*self.waiting]:
            loop = request.loop
            if loop is None or loop.is_closed():
                self.withdraw(request)
            elif loop.is_running() and not queues.isdisjoint(map(_queue, request.items[0].demands)):
                pending.append(request)  # before it is taken, so that it can be found if a signal interrupts this
                if not self.withdraw(request):
                    pending.pop()


class StandingClaim(Request[Any]):
    """A claim that is served once a round has work for it."""

    __slots__ = ("claims",)

    claims: StandingClaims
    """The claims it waits among, and can be withdrawn from."""


def is_standing(request: Request[Any]) -> bool:
    """Return whether a claim still waits for work, and no round has taken it."""
    return isinstance(request, StandingClaim) and request in request.claims.waiting


class Leader:
    """Decides who runs the next round: a caller, or the writer. The one who runs it holds the lock `round_`."""

    def __init__(self, line: Line, round_: threading.Lock, serve: Serve) -> None:
        self._line = line
        self._round = round_
        self._serve = serve
        self._pace = UNKNOWN_PACE
        self._last_led = 0.0
        self._planned_by: asyncio.AbstractEventLoop | None = None
        self._planned_items = 0

    def offer(self, request: Request[Any]) -> bool:
        """Plan to lead a round for this request if that is quicker; return False if the writer should serve it."""
        if request.size > MOST_LED:
            return False
        if self._pace >= SLOWEST_LED and (
            self._pace >= SLOWEST_AFTER_PAUSE or time.monotonic() - self._last_led < PAUSE
        ):
            return False
        line, loop = self._line, request.loop
        if loop is not None and loop is self._planned_by:  # other calls of the same turn share its round
            self._planned_items += request.size
            if self._planned_items > MOST_LED:  # too many: the writer begins at once
                self._planned_by = None
                return False
            line.put(request, for_writer=False)
            return True
        if line.waiting or not line.sleeping:
            return False
        line.put(request, for_writer=False)
        if loop is None:
            self._lead()
        else:
            self._planned_by, self._planned_items = loop, request.size
            loop.call_soon(self._lead)
        return True

    def _lead(self) -> None:
        """Run the planned round, unless the writer is running one already or more requests have come than may be led.

        A caller's thread may be the main one, where a signal can interrupt anything. `map` takes the lock and records
        that in one step, which no signal can interrupt.
        """
        self._planned_by = None
        line = self._line
        ours: list[bool] = []
        try:
            ours += map(self._round.acquire, (False,))
            if ours[0]:
                self._lead_round(line)
        finally:
            try:  # before the release of the lock, which the writer then waits for: a signal may come in between
                if line.waiting or not (ours and ours[0]):
                    line.sleeping = False
                    line.wake_at_once(None)
            finally:
                if ours and ours[0]:
                    self._round.release()

    def _lead_round(self, line: Line) -> None:
        try:
            pending = line.lead(MOST_LED)
            if pending:
                began = time.monotonic()
                unserved = self._serve(pending)
                self._last_led = time.monotonic()
                self._pace = (self._pace + self._last_led - began) / 2
                if unserved:
                    line.return_first(unserved)
                pending.clear()  # each is answered, or waits again
        except BaseException:
            line.return_led()
            raise

    def took(self, requests: Sequence[Request[Any]], seconds: float) -> None:
        """Note how long a round of the writer took that could have been led: commits may be quick again."""
        if all(map(_may_be_led, requests)) and sum(map(_size, requests)) <= MOST_LED:
            self._pace = (self._pace + seconds) / 2


class Deadlines:
    """Watches the earliest deadline of all calls of a loop with one timer; a timer for each call would cost more."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.timed: dict[asyncio.AbstractEventLoop, float] = {}
        """When the timer of each loop fires."""

    def watch(self, request: Request[Any]) -> None:
        """Make sure that a call ends by its deadline."""
        loop = request.loop
        if loop is not None and request.deadline < self.timed.get(loop, NEVER):
            self.timed = {known: at for known, at in self.timed.items() if not known.is_closed()}
            self._watch_until(loop, request.deadline)

    def _watch_until(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        self.timed[loop] = deadline
        loop.call_later(max(0.0, deadline - time.monotonic()), self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        self.timed.pop(loop, None)
        unanswered = self._line.unanswered(loop)
        for request in unanswered:
            if request.deadline <= now:
                request.future.set_exception(request.give_up())
        left = [request.deadline for request in unanswered if now < request.deadline < NEVER]
        if left:
            self._watch_until(loop, min(left))
