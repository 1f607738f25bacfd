"""Worker processes of the bench, seen from the parent: started here, and ended here through their own handles."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from standfast.bench.child import BenchTask
from standfast.concurrency.threads import with_timeout

START_AND_STOP = 30.0
"""Seconds that a child may take beyond the time of its task."""
LONGEST_LINE = 1 << 24

T = TypeVar("T")


class Child:
    """A running worker process."""

    def __init__(self, process: Process, order: BenchTask) -> None:
        self._process = process
        self._patience = order.seconds + START_AND_STOP

    async def answer(self, kind: type[T]) -> T:
        """Wait for the child's next line, and return it decoded."""
        if self._process.stdout is None:
            raise RuntimeError("a bench worker was started without a pipe to answer through")
        line = await with_timeout(self._process.stdout.readline(), self._patience)
        if not line:
            code = await self._process.wait()
            raise RuntimeError(f"a bench worker ended early, with code {code}; its output is above")
        return msgspec.json.decode(line, type=kind)

    async def say(self, number: int) -> None:
        """Send a number to the child."""
        if self._process.stdin is None:
            raise RuntimeError("a bench worker was started without a pipe to hear through")
        self._process.stdin.write(b"%d\n" % number)
        await self._process.stdin.drain()


@asynccontextmanager
async def child(order: BenchTask) -> AsyncIterator[Child]:
    """Run a worker process while the block lasts."""
    text = msgspec.json.encode(order).decode()
    arguments = (sys.executable, "-m", "standfast.bench.child", text)
    process = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE)
    try:
        yield Child(process, order)
        await with_timeout(process.wait(), START_AND_STOP)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ask(order: BenchTask, kind: type[T]) -> T:
    """Run a worker process that answers once."""
    async with child(order) as worker:
        return await worker.answer(kind)
