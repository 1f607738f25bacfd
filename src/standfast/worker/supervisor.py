"""Supervises worker processes: starts them, restarts them when they die, stops them and waits for them.

The supervising process imports no application and opens no store: a fault that breaks a worker cannot break it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from standfast.concurrency.store_moved import EXIT_CODE as MOVED
from standfast.portable import on_signal
from standfast.worker.alive_file import WITHIN, kept_alive, why_not_alive

log = logging.getLogger("standfast.worker")

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before a process is restarted, by how many in a row ended soon."""
LONG_ENOUGH = 60.0
"""A process that lived so many seconds ends the row: its end does not count as soon."""
LOOK_EVERY = 0.3
"""Seconds between two checks for changed source files."""

Command = Callable[[int], Sequence[str]]
"""Returns the command that starts the process at a place; places count from 1."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor runs."""

    command: Command
    processes: int = 1
    changed: Callable[[], bool] | None = None
    """Returns whether source files have changed since the last call: then all processes are restarted."""
    alive: str | None = None
    """The file that is touched while every process is alive according to its own file."""


class WorkerProcess:
    """One worker process, and the socket to it."""

    def __init__(self, place: int, process: Process, ours: socket.socket) -> None:
        self.place = place
        self.process = process
        self._ours = ours
        self.began = time.monotonic()
        self.told_to_stop = False

    def was_ready(self) -> bool:
        """Return whether the process got as far as being able to claim."""
        with suppress(BlockingIOError, ConnectionError):
            return bool(self._ours.recv(1, socket.MSG_PEEK))
        return False

    def stop(self) -> None:
        """Tell the process to drain; a second call makes it exit at once."""
        self.told_to_stop = True
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    async def ends(self) -> int:
        """Wait for the process to end; return its exit code."""
        return await self.process.wait()

    def let_go(self) -> None:
        """Close the socket; a process that still runs would take that for the end of this one."""
        self._ours.close()


async def start(place: int, command: Sequence[str]) -> WorkerProcess:
    """Start a worker process in a group of its own: Ctrl-C reaches only the supervisor, which passes it on."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003 - it takes no keyword
    with theirs:
        options: dict[str, Any] = {"stdin": asyncio.subprocess.DEVNULL, "process_group": 0}
        options["pass_fds"] = (theirs.fileno(),)
        process = await asyncio.create_subprocess_exec(*command, "--supervised", str(theirs.fileno()), **options)
    return WorkerProcess(place, process, ours)


class Supervisor:
    """Keeps the wanted number of worker processes running until it is told to stop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._running: dict[int, WorkerProcess] = {}
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        """Set when source files have changed: a process that could not start is then started again."""
        self._one_was_ready = False
        self._code = 0

    async def run(self) -> int:
        """Supervise until told to stop; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            on_signal(number, self._stop)
        async with kept_alive(self._plan.alive, self._all_alive):
            places = range(1, self._plan.processes + 1)
            keeping = [loop.create_task(self._keep(place)) for place in places]
            watching = loop.create_task(self._watch())
            await asyncio.gather(*keeping)
            watching.cancel()
        return self._code

    def _stop(self, code: int = 0) -> None:
        """Tell every process to drain; a second call makes them exit at once."""
        if not self._stopping.is_set():
            log.info("%d worker processes drain", len(self._running))
        self._code = self._code or code
        self._stopping.set()
        for each in self._running.values():
            each.stop()

    async def _keep(self, place: int) -> None:
        """Keep one process running, and restart it when it ends."""
        in_a_row = 0
        while not self._stopping.is_set():
            self._news.clear()
            worker = self._running[place] = await start(place, self._plan.command(place))
            if self._stopping.is_set():  # told to stop while it was being started
                worker.stop()
            code = await worker.ends()
            del self._running[place]
            ready = worker.was_ready()
            worker.let_go()
            self._one_was_ready |= ready
            in_a_row = 0 if time.monotonic() - worker.began > LONG_ENOUGH else in_a_row + 1
            await self._after(worker, code, in_a_row, ready=ready)

    async def _after(self, worker: WorkerProcess, code: int, in_a_row: int, *, ready: bool) -> None:
        """Decide about a process that has ended: leave it, give up, or wait until it is to be restarted."""
        if worker.told_to_stop:
            if self._stopping.is_set() and code and (ready or code != -signal.SIGTERM):
                self._code = self._code or 1
        elif code == MOVED:
            log.error("the store of worker process %d has moved; all of them end", worker.place)
            self._stop(MOVED)
        elif self._plan.changed is not None and not ready:
            log.error("worker process %d %s; it starts again when a file changes", worker.place, how(code))
            await self._until(self._news)
        elif not ready and not self._one_was_ready:
            log.error("worker process %d %s before it was ready; all of them end", worker.place, how(code))
            self._stop(code if code > 0 else 1)
        else:
            pause = PAUSES[min(in_a_row, len(PAUSES)) - 1] if in_a_row else PAUSES[0]
            log.warning("worker process %d %s; another one starts in %g s", worker.place, how(code), pause)
            await self._until(self._news, pause)

    async def _until(self, event: asyncio.Event, at_most: float | None = None) -> None:
        """Wait for an event, until told to stop, or at most this many seconds."""
        waiting = [asyncio.ensure_future(each.wait()) for each in (event, self._stopping)]
        await asyncio.wait(waiting, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    async def _watch(self) -> None:
        """Restart every process when source files change."""
        changed = self._plan.changed
        while changed is not None:
            await asyncio.sleep(LOOK_EVERY)
            if await asyncio.to_thread(changed):
                log.info("source files have changed: the worker starts anew")
                self._news.set()
                for each in self._running.values():
                    if not each.told_to_stop:
                        each.stop()

    def _all_alive(self) -> bool:
        places = range(1, self._plan.processes + 1)
        return all(why_not_alive(alive_file_of(str(self._plan.alive), each), WITHIN) is None for each in places)


def alive_file_of(path: str, place: int) -> Path:
    """Return the file that one of several processes touches."""
    return Path(f"{path}.{place}")


def how(code: int) -> str:
    """Describe how a process ended."""
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
