"""Suspects: jobs whose worker died while it ran them. Each runs alone, so that only a job that kills counts as one.

If the worker knows how to start a process like its own, that process runs them one at a time, and the worker goes on.
Otherwise the worker runs them itself, holding nothing else meanwhile; of several workers, one at a time does so.
"""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Literal, NamedTuple

from standfast.concurrency.loops import Loop
from standfast.concurrency.threads import with_timeout
from standfast.store.store import Store
from standfast.worker.claimer import Claimer
from standfast.worker.executor import Executor
from standfast.worker.lost_workers import SuspectTurn, count_startable, release_suspect_turn, take_suspect_turn

log = logging.getLogger("standfast.worker")

LOOK_AGAIN = 2.0
"""Seconds after which a worker asks again for its turn while another worker has it."""
FIRST_TURN = 30.0
"""Seconds a worker waits until it holds no job; then it goes on, and lets another worker try first."""
LONGEST_TURN = 900.0
"""The most seconds it waits in a later turn: as long as an attempt may take by default."""
TRIES = 3
"""After so many processes in a row that could run nothing, the worker runs suspects itself."""
PLACE_WITHIN = 10.0
"""Seconds to wait for a place of a limit or a rate. A suspect that still has none keeps its place in the line."""
LOOK_FOR_PLACE = 0.1
LONGEST_START = 300.0
"""Seconds a process may take to load the application before it counts as one that runs no job."""
READY, NOTHING = b"r", b"n"
"""What such a process writes: that it can claim, and that it saw no suspects. If a job kills it, no more comes."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before another process is started, by how many in a row have failed or ran no job."""
LAST_WORD = 10.0
"""Seconds beyond the grace that a process which runs suspects gets to end when its worker ends."""


class Suspects(Loop):
    """Runs the suspects that claims reported. The two subclasses say how."""

    def __init__(self) -> None:
        super().__init__("suspects", 0.0, self._run_reported)
        self._queues: set[str] = set()
        self._heard = asyncio.Event()
        self._at_it = False

    @property
    def busy(self) -> bool:
        """Whether it is running suspects, or some were reported."""
        return self._at_it or self._heard.is_set()

    def hear(self, queues: Sequence[str]) -> None:
        """Note that queues have suspects; call this in the loop."""
        self._queues.update(queues)
        self._heard.set()

    async def _pause(self) -> None:
        self._at_it = False
        await self._heard.wait()
        self._at_it = True
        self._heard.clear()

    async def _run_reported(self) -> None:
        """Run the suspects of the queues that were reported. If that fails, look there again after a pause."""
        queues, self._queues = sorted(self._queues), set()
        with ExitStack() as undo:
            undo.callback(self._look_later, queues)
            await self.run(queues)
            undo.pop_all()

    def _look_later(self, queues: Sequence[str]) -> None:
        asyncio.get_running_loop().call_later(LOOK_AGAIN, self.hear, queues)

    async def run(self, queues: Sequence[str]) -> None:
        """Run the suspects of these queues."""
        raise NotImplementedError


class InThisWorker(Suspects):
    """Runs suspects in the worker itself, while it holds nothing else."""

    def __init__(self, worker: str, store: Store, claimer: Claimer, executor: Executor) -> None:
        super().__init__()
        self._worker = worker
        self._store = store
        self._claimer = claimer
        self._executor = executor
        self._patience = FIRST_TURN
        self.ran = 0
        """How many suspects it has run so far."""

    async def startable(self, queues: Sequence[str]) -> int:
        """Return how many suspects of these queues could start now, as far as is known."""
        return await self._store.read(count_startable(self._claimer.demands_alone(queues)))

    async def run(self, queues: Sequence[str], begins: Callable[[], None] = lambda: None) -> None:
        """Run the suspects of these queues. If another worker has the turn, try again later."""
        for queue in queues:
            if not await self._store.write(take_suspect_turn, SuspectTurn(self._worker, queue)):
                self._look_later([queue])
                continue
            begins()
            try:
                done = await self._run_queue(queue)
            finally:
                self._claimer.claim_all()
                await self._store.write(release_suspect_turn, self._worker)
            if done:
                self._patience = FIRST_TURN
            else:
                await self._go_on_for_now(queue)

    async def _run_queue(self, queue: str) -> bool:
        """Run suspects once everything else has ended; return False if that takes too long."""
        await self._claimer.claim_suspects_only()
        if not await self._is_idle():
            return False
        while await claim_with_patience(self._claimer, [queue]) == "started":
            self.ran += 1
            await self._executor.idle()
        return True

    async def _go_on_for_now(self, queue: str) -> None:
        """Let the worker claim for as long as it had paused: one job that never ends must not keep all others waiting.

        The next turn is longer, so that suspects get to run even if the worker's jobs take long.
        """
        await asyncio.sleep(self._patience)
        self._patience = min(2 * self._patience, LONGEST_TURN)
        self.hear((queue,))

    async def _is_idle(self) -> bool:
        """Return whether every end got on disk, waiting no longer than this turn."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await self._executor.idle()
        return not self._executor.held


class ProcessEnd(NamedTuple):
    """How a process that runs suspects ended: its exit code and what it wrote, or why it could not be started."""

    code: int = 0
    words: bytes = b""
    error: OSError | None = None

    @property
    def began(self) -> bool:
        """Whether it came to claim anything."""
        return READY in self.words

    @property
    def saw_none(self) -> bool:
        """Whether it saw no suspects: another worker may have taken them, or it has no handlers for them."""
        return NOTHING in self.words

    @property
    def failed(self) -> bool:
        """Whether something is wrong with the process itself; a suspect that killed it is not."""
        return self.code > 0 or self.error is not None

    def __str__(self) -> str:
        """Say what became of it."""
        if self.error is not None:
            return f"could not be started: {self.error}"
        return f"{'ran none' if self.saw_none or not self.began else 'failed'} and ended with exit code {self.code}"


class InAProcess(Suspects):
    """Runs suspects in processes of their own, one after another while there are any. The worker goes on meanwhile.

    If such processes cannot run anything, the worker runs the suspects itself. One that only waited for a place can.
    """

    def __init__(
        self,
        argv: Sequence[str],
        grace: float,
        reap: Callable[[], Awaitable[None]],
        look: Callable[[], None],
        here: InThisWorker,
    ) -> None:
        super().__init__()
        self._argv = argv
        self._grace = grace
        self._reap = reap
        """Decides about the jobs that dead processes held."""
        self._look = look
        """Makes claims look at every queue, and report the suspects that are left."""
        self._here = here
        self._failures = 0
        self._useless = 0
        """How many processes in a row could run nothing, although there were suspects that could start."""
        self._runs_here = False

    async def run(self, queues: Sequence[str]) -> None:
        """Run the suspects of every queue in one process, or in this worker if too many processes could run none."""
        end = await self._in_a_process()
        await self._reap()
        left = await self._here.startable(queues)
        useless = not end.began or (end.saw_none and left > 0)
        self._useless = self._useless + 1 if useless else 0
        if not await self._ran_here(queues, left):
            await self._after(end, useless=useless)
        self._heard.clear()  # suspects reported meanwhile are done, or will be reported again
        self._look()

    async def _ran_here(self, queues: Sequence[str], left: int) -> bool:
        """Run suspects in this worker if too many processes in a row could run none; return whether that ran any."""
        self._runs_here = self._runs_here and self._useless >= TRIES
        if self._useless < TRIES or not left:
            return False
        before = self._here.ran
        await self._here.run(queues, partial(self._note_running_here, left))
        return self._here.ran > before

    def _note_running_here(self, left: int) -> None:
        """Log that this worker runs suspects, unless it did before."""
        if not self._runs_here:
            log.warning(
                "Could not start a separate process for %d jobs whose worker died; this worker now runs them one at a "
                "time and starts no other jobs.",
                left,
            )
        self._runs_here = True

    async def _in_a_process(self) -> ProcessEnd:
        """Start a process and wait for its end."""
        try:
            process, reader = await self._start()
        except OSError as error:  # a deployment has replaced the program, or no process can be started now
            return ProcessEnd(error=error)
        try:
            return await self._ended(process, reader)
        finally:
            os.close(reader)

    async def _start(self) -> tuple[Process, int]:
        """Start a process; return it, and the pipe on which it reports."""
        with ExitStack() as undo:
            reader, tell = os.pipe()
            undo.callback(os.close, reader)
            os.set_blocking(reader, False)
            # In a session of its own: Ctrl-C reaches only the worker, which passes it on once.
            options: dict[str, Any] = {"stdin": asyncio.subprocess.DEVNULL, "start_new_session": True}
            try:
                command = (*self._argv, "--tell", str(tell))
                process = await asyncio.create_subprocess_exec(*command, pass_fds=(tell,), **options)
            finally:
                os.close(tell)
            undo.pop_all()
        return process, reader

    async def _ended(self, process: Process, reader: int) -> ProcessEnd:
        """Wait for the end of a process, but not forever for its start."""
        try:
            with suppress(TimeoutError):
                await with_timeout(process.wait(), LONGEST_START)
            words = _read(reader)
            if process.returncode is None and not words:
                log.error("the process that runs jobs alone was not ready after %g s, and is ended", LONGEST_START)
                process.kill()
            code = await process.wait()
        except asyncio.CancelledError:
            await self._end(process)
            raise
        return ProcessEnd(code, words + _read(reader))

    async def _after(self, end: ProcessEnd, *, useless: bool) -> None:
        """Pause before the next process if this one failed or saw nothing; not if a suspect killed it."""
        failed = end.failed or useless
        self._failures = self._failures + 1 if failed else 0
        if end.code < 0:
            log.warning("the process that ran a job alone was killed by signal %d", -end.code)
        if failed:
            pause = PAUSES[min(self._failures, len(PAUSES)) - 1]
            level = logging.ERROR if end.code or end.error else logging.INFO
            log.log(level, "the process that runs jobs alone %s; the next starts in %g s", end, pause)
            await asyncio.sleep(pause)
        elif end.saw_none:
            await asyncio.sleep(PAUSES[0])

    async def _end(self, process: Process) -> None:
        """Tell the process to drain, as its worker does."""
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await with_timeout(process.wait(), self._grace + LAST_WORD)
        except (TimeoutError, asyncio.CancelledError):
            with suppress(ProcessLookupError):
                process.kill()


def _read(pipe: int) -> bytes:
    """Return what was written so far."""
    try:
        return os.read(pipe, 16)
    except BlockingIOError:
        return b""


async def claim_with_patience(
    claimer: Claimer, queues: Sequence[str] | None = None, going: Callable[[], bool] = lambda: True
) -> Literal["started", "held", "none"]:
    """Claim one suspect. If something holds all of them back, wait for a place: the first has the next of its queue."""
    loop = asyncio.get_running_loop()
    until, held = loop.time() + PLACE_WITHIN, False
    while going():
        found = await claimer.claim_alone(queues)
        held = held or found == "held"
        if found == "started":
            return found
        if not held or loop.time() > until:
            break
        await asyncio.sleep(LOOK_FOR_PLACE)
    return "held" if held else "none"


async def run_suspects(claimer: Claimer, executor: Executor, parent: int, tell: Callable[[bytes], None]) -> None:
    """Run suspects one at a time until none can start, or until the worker that started this process is gone.

    Tell that worker when this process can claim, and if there were no suspects at all.
    """
    tell(READY)
    ran = 0
    while (found := await claim_with_patience(claimer, going=lambda: os.getppid() == parent)) == "started":
        ran += 1
        await executor.idle()
    if not ran and found == "none":
        tell(NOTHING)
