"""Hands decisions about jobs to the store: in batches, once each; again if a write was cut off, singly if it failed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from standfast.lifecycle import State, Transition
from standfast.spine.apply import apply
from standfast.spine.run import Running
from standfast.spine.tell import tell
from standfast.store.store import Store
from standfast.wings.effects.handler_job import Job
from standfast.wings.tracebacks.words import Traceback
from standfast.worker.failure_calls import FailureCalls
from standfast.worker.stopwatch import Stopwatch

log = logging.getLogger("standfast.worker")

Key = tuple[int, int]
"""A job's number, and its fencing token."""


class DecisionWriter:
    """Writes decisions in batches, each batch once, and again if the write was cut off."""

    def __init__(
        self,
        store: Store,
        written: Callable[[list[Transition], list[bool]], None],
        refused: Callable[[Transition, BaseException], None],
    ) -> None:
        self._store = store
        self._written = written
        """Called with decisions that were written, and whether each changed its job."""
        self._refused = refused
        """Called with a decision that cannot be written even by itself, and why."""
        self.under_way: set[asyncio.Future[Any]] = set()
        """The writes under way."""

    def write(self, decisions: list[Transition]) -> None:
        """Write these decisions in one transaction."""
        writing = self._store.write_all(apply, decisions).start()
        self.under_way.add(writing)
        writing.add_done_callback(partial(self._after, decisions))

    async def finish(self) -> None:
        """Wait until every decision is written or refused."""
        while self.under_way:
            await asyncio.wait(self.under_way)

    def _after(self, decisions: list[Transition], writing: asyncio.Future[list[bool]]) -> None:
        """Repeat a write that was cancelled because the whole loop is stopping; write one by one after an error."""
        self.under_way.discard(writing)
        if writing.cancelled():
            self.write(decisions)
            return
        error = writing.exception()
        if error is None:
            self._written(decisions, writing.result())
        elif len(decisions) > 1:
            for decision in decisions:
                self.write([decision])
        else:
            self._refused(decisions[0], error)


class Ends:
    """The jobs that a worker holds, and what was decided about them. `freed` is called with the slots freed."""

    def __init__(
        self, store: Store, freed: Callable[[Counter[str]], None], stopwatch: Stopwatch, failure_calls: FailureCalls
    ) -> None:
        self._writer = DecisionWriter(store, self._written, self._refused)
        self._freed = freed
        self._stopwatch = stopwatch
        self._failure_calls = failure_calls
        self._settled: list[Transition] = []
        self._ran: list[tuple[str, float]] = []
        self._slots_freed: Counter[str] = Counter()
        self.flushes = self._writer.under_way
        """The writes under way."""
        self.held: dict[Key, Running] = {}
        """Every job claimed here whose end is not on disk yet, by number and token."""
        self.unwritten: set[Key] = set()
        """The held jobs whose end could not be written at all."""
        self.ended = 0
        """Attempts that have ended here so far."""
        self.died = 0
        """How many of those attempts left their job dead or held."""
        self.fenced = 0
        """Ends that changed nothing, because the job had lapsed, or had moved on under a newer token."""

    @property
    def waiting(self) -> bool:
        """Whether an end waits to be handed to the store."""
        return bool(self._settled)

    def settle(self, running: Running, transition: Transition) -> None:
        """Accept the end of an attempt, and free its slot."""
        running.deadline = None
        self.ended += 1
        queue = running.claim.queue
        if running.job is not None:
            self._ran.append((queue, time.monotonic() - running.began))
        self._slots_freed[queue] += 1
        if not self._settled:
            asyncio.get_running_loop().call_soon(self._flush)
        self._settled.append(transition)

    def hand_in(self, transition: Transition) -> None:
        """Write a decided change that ends no attempt, at the end of this turn of the loop."""
        if not self._settled:
            asyncio.get_running_loop().call_soon(self._flush)
        self._settled.append(transition)

    def _flush(self) -> None:
        """Hand the ends to the store; the claims that fill the free slots then share their transaction."""
        transitions, self._settled = self._settled, []
        freed, self._slots_freed = self._slots_freed, Counter()
        ran, self._ran = self._ran, []
        self._stopwatch.ran(ran)
        self._writer.write(transitions)
        self._freed(freed)

    def _written(self, transitions: list[Transition], landed: list[bool]) -> None:
        """Let go of jobs whose end is on disk."""
        for transition, ok in zip(transitions, landed, strict=True):
            running = self.held.pop((transition.n, transition.token), None)
            if not (ok and transition.plain):
                self._tell(running, transition, landed=ok)

    def _tell(self, running: Running | None, transition: Transition, *, landed: bool) -> None:
        """Log what became of the end of an attempt, unless a plain job simply completed."""
        if not landed:
            self.fenced += 1
            what = "job %s is no longer held here; the end of its attempt %d landed nowhere"
            about = None if running is None else running.claim.log_fields
            log.warning(what, transition.id, transition.attempt, extra=about)
        if running is None or transition.plain:
            return
        if landed:
            raised = transition.rider(Traceback)
            tell(transition, running.claim, running.span, None if raised is None else raised.text)
            self.died += transition.target in {State.DEAD, State.HELD}
        self._report(running, transition)

    def _report(self, running: Running, transition: Transition) -> None:
        """Report a failed attempt to the application once its end is written or cannot be; release its exception."""
        error, running.error = running.error, None
        if transition.failure is not None:
            job = running.job or Job(running.claim, running.rules)
            self._failure_calls.report(job, transition, error)

    def _refused(self, transition: Transition, error: BaseException) -> None:
        """Keep a job whose end cannot be written at all.

        It counts as running while this worker lives, and lapses after that: giving it back would run its effect again.
        """
        self.unwritten.add((transition.n, transition.token))
        running = self.held.get((transition.n, transition.token))
        about = None if running is None else running.claim.log_fields
        what = "the end of job %s, %s, cannot be written"
        log.error(what, transition.id, transition.move, exc_info=error, extra=about)
        if running is not None:
            self._report(running, transition)
