"""The processes of the demo: started here, and ended here through their own handles.

Each runs in its own session, so that Ctrl-C reaches their parent only.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from standfast.errors import StandfastError

START = 30.0
"""Seconds that a process may take to start."""
PYTHON = (sys.executable, "-P", "-m")
"""`-P` keeps modules of the current directory out."""


class DemoFailed(StandfastError):
    """A process of the demo ended on its own."""


@asynccontextmanager
async def receiver(books: Path) -> AsyncIterator[int]:
    """Run the receiver while the block lasts; yield its port."""
    arguments = (*PYTHON, "standfast.demo.demo_receiver", str(books))
    process = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, start_new_session=True)
    try:
        if process.stdout is None:
            raise DemoFailed("the receiver was started without a pipe to tell its port through")
        async with asyncio.timeout(START):  # wait_for of 3.11 swallows a cancellation that comes with the answer
            line = await process.stdout.readline()
        if not line:
            raise DemoFailed("the receiver ended early; its output is above")
        yield int(line)
    finally:
        await end(process)


class Crew:
    """Runs one worker at a time, on the demo's queue."""

    def __init__(self, queue: str, log: Path, slots: int) -> None:
        self._command = ("standfast", "worker", "--queues", queue, "--concurrency", str(slots), "--grace", "1")
        self._log = log
        self._process: Process | None = None

    async def start(self) -> int:
        """Start a worker; return its process id."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *PYTHON, *self._command, stdin=DEVNULL, stderr=log, start_new_session=True
            )
        return self._process.pid

    async def kill(self) -> None:
        """Kill the worker with SIGKILL: it has no chance to clean up."""
        if self._process is not None:
            await end(self._process)

    def check(self) -> None:
        """Raise if the worker ended on its own."""
        if self._process is not None and self._process.returncode is not None:
            *_, last = ["nothing", *self._log.read_text(errors="replace").splitlines()]
            raise DemoFailed(f"the worker ended early, with code {self._process.returncode}; its last words: {last}")


async def end(process: Process) -> None:
    """Kill a process that is still running, and wait for its end."""
    if process.returncode is None:
        process.kill()
    await process.wait()
