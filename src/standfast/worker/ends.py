"""Handing ends to the store: in batches, once, and again after whatever cut that off."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from standfast.lifecycle import Transition
from standfast.spine.apply import apply
from standfast.spine.run import Running
from standfast.spine.tell import tell
from standfast.store.store import Store

log = logging.getLogger("standfast.worker")

Key = tuple[int, int]
"""A job's number, and the token it is held under."""


class Ends:
    """The jobs in a worker's hands, and what was decided about them. `freed` is told how many slots became free."""

    def __init__(self, store: Store, freed: Callable[[Counter[str]], None]) -> None:
        self._store = store
        self._freed = freed
        self._settled: list[Transition] = []
        self._slots_freed: Counter[str] = Counter()
        self.flushes: set[asyncio.Task[None]] = set()
        """What is being written."""
        self.held: dict[Key, Running] = {}
        """Every job claimed here whose end is not on disk yet, by number and token."""
        self.unwritten: set[Key] = set()
        """Those whose end could not be written at all."""
        self.fenced = 0
        """Ends that landed nowhere, because another worker had taken the job over."""

    @property
    def waiting(self) -> bool:
        """Whether an end waits to be handed over."""
        return bool(self._settled)

    def settle(self, running: Running, transition: Transition) -> None:
        """Take the end of an attempt, and free its slot."""
        running.deadline = None
        self._slots_freed[running.claim.queue] += 1
        self.hand_in(transition)

    def hand_in(self, transition: Transition) -> None:
        """Queue a decided change for the flush at the end of this turn of the loop."""
        if not self._settled:
            asyncio.get_running_loop().call_soon(self._flush)
        self._settled.append(transition)

    def _flush(self) -> None:
        """Hand the ends to the store; the claims that fill the free slots then share their transaction."""
        transitions, self._settled = self._settled, []
        freed, self._slots_freed = self._slots_freed, Counter()
        self._hand_over(transitions)
        self._freed(freed)

    def _hand_over(self, transitions: list[Transition]) -> None:
        task = asyncio.get_running_loop().create_task(self._apply(transitions))
        self.flushes.add(task)
        task.add_done_callback(partial(self._handed_over, transitions))

    def _handed_over(self, transitions: list[Transition], task: asyncio.Task[None]) -> None:
        """Hand over again what was cut off by stopping the whole loop: an end that is known is written."""
        self.flushes.discard(task)
        if task.cancelled():
            self._hand_over(transitions)

    async def _apply(self, transitions: list[Transition]) -> None:
        [landed] = await asyncio.gather(self._written(transitions), return_exceptions=True)
        if isinstance(landed, BaseException):
            await self._apply_each(transitions, landed)
            return
        for transition, ok in zip(transitions, landed, strict=True):
            running = self.held.pop((transition.n, transition.token), None)
            if ok and running is not None:
                tell(transition, running.claim.handler, running.claim.max_attempts, running.span)
            elif not ok:
                self.fenced += 1
                log.warning(
                    "job %s was taken over; the end of its attempt %d landed nowhere", transition.id, transition.attempt
                )

    async def _written(self, transitions: list[Transition]) -> list[bool]:
        return await self._store.write_all(apply, transitions)

    async def _apply_each(self, transitions: list[Transition], error: BaseException) -> None:
        """Write one by one what could not be written together.

        What cannot be written at all counts as running while this worker lives, and lapses after: giving it back would
        run its effect again.
        """
        if len(transitions) > 1:
            for transition in transitions:
                await self._apply([transition])
            return
        [transition] = transitions
        self.unwritten.add((transition.n, transition.token))
        log.error("the end of job %s, %s, cannot be written", transition.id, transition.move, exc_info=error)
