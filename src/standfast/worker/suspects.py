"""Suspects: jobs whose worker died while it ran them. Each runs alone, so that only what kills is counted as killing.

Where the worker knows how to start a process like its own, that runs them, one at a time, and the worker goes on.
Elsewhere the worker itself runs them, holding nothing else while it does; of several workers one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from standfast.store.apart import Turns
from standfast.worker.claimer import Claimer
from standfast.worker.executor import Executor
from standfast.worker.loops import Loop

log = logging.getLogger("standfast.worker")

LOOK_AGAIN = 2.0
"""Seconds after which a worker asks again for its turn while another one stands apart."""
LONGEST_TURN = 30.0
"""Seconds a worker waits to have nothing in its hands before it lets another one try first."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before another process is started, after so many in a row that could not even begin."""
LAST_WORD = 10.0
"""Seconds beyond its grace that a process which runs suspects is given to end when its worker does."""


class Suspects(Loop):
    """Runs the suspects that claims told of. How, its two kinds say."""

    def __init__(self) -> None:
        super().__init__("suspects", 0.0, self._run_all)
        self._queues: set[str] = set()
        self._heard = asyncio.Event()

    def hear(self, queues: Sequence[str]) -> None:
        """Take note of queues that have suspects; called in the loop."""
        self._queues.update(queues)
        self._heard.set()

    async def _pause(self) -> None:
        await self._heard.wait()
        self._heard.clear()

    async def _run_all(self) -> None:
        raise NotImplementedError


class InThisWorker(Suspects):
    """Runs suspects in the worker itself, while it holds nothing else."""

    def __init__(self, worker: str, turns: Turns, claimer: Claimer, executor: Executor) -> None:
        super().__init__()
        self._worker = worker
        self._turns = turns
        self._claimer = claimer
        self._executor = executor

    async def _run_all(self) -> None:
        queues, self._queues = sorted(self._queues), set()
        for queue in queues:
            if not await self._turns.take(self._worker, queue):
                asyncio.get_running_loop().call_later(LOOK_AGAIN, self.hear, (queue,))
                continue
            try:
                await self._run_queue(queue)
            finally:
                self._claimer.go_on()
                await self._turns.leave(self._worker)

    async def _run_queue(self, queue: str) -> None:
        await self._claimer.stand_apart()
        given_up = time.monotonic() + LONGEST_TURN
        while not await self._is_idle(given_up):
            await self._turns.leave(self._worker)
            await asyncio.sleep(LOOK_AGAIN)
            if not await self._turns.take(self._worker, queue):
                return
            given_up = time.monotonic() + LONGEST_TURN
        while await self._claimer.claim_alone([queue]):
            await self._executor.idle()

    async def _is_idle(self, until: float) -> bool:
        """Wait until every end is on disk, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(until - time.monotonic()):
                await self._executor.idle()
        return not self._executor.held


class InAProcess(Suspects):
    """Has a process of its own run suspects, again and again while there are any. The worker goes on beside it."""

    def __init__(
        self, argv: Sequence[str], grace: float, reap: Callable[[], Awaitable[None]], look: Callable[[], None]
    ) -> None:
        super().__init__()
        self._argv = argv
        self._grace = grace
        self._reap = reap
        """Decides about what dead processes held."""
        self._look = look
        """Has claims look at every queue, and tell of suspects that are left."""
        self._failures = 0

    async def _run_all(self) -> None:
        # In a session of its own: Ctrl-C is for the worker, which tells it once.
        nothing = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*self._argv, stdin=nothing, start_new_session=True)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await self._end(process)
            raise
        await self._reap()
        await self._after(code)
        self._heard.clear()  # what claims told of meanwhile is done, or told of again
        self._look()

    async def _after(self, code: int) -> None:
        """Wait before another one where this one failed; a suspect that killed it is nothing to wait for."""
        self._failures = self._failures + 1 if code > 0 else 0
        if code < 0:
            log.warning("the process that ran a job alone was killed by signal %d", -code)
        if code > 0:
            pause = PAUSES[min(self._failures, len(PAUSES)) - 1]
            log.error("the process that runs jobs alone ended with exit code %d; the next starts in %g s", code, pause)
            await asyncio.sleep(pause)

    async def _end(self, process: Process) -> None:
        """Have it drain, as its worker does."""
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._grace + LAST_WORD)
        except (TimeoutError, asyncio.CancelledError):
            with suppress(ProcessLookupError):
                process.kill()


async def run_suspects(claimer: Claimer, executor: Executor, parent: int) -> None:
    """Run suspects one at a time until there are none, or until the worker that wanted it is gone."""
    while os.getppid() == parent and await claimer.claim_alone():
        await executor.idle()
