"""A process in the peers' environment, seen from the parent: started on demand, ended through its own handle."""

from __future__ import annotations

import asyncio
import tempfile
from asyncio.subprocess import PIPE, Process
from typing import IO, Any, TypeVar

import msgspec

from standfast.bench.bench_children import LONGEST_LINE, START_AND_STOP
from standfast.bench.postgres.contestant import Failed
from standfast.concurrency.threads import with_timeout

LAST_WORDS = 4_000
END_SECONDS = 3.0

T = TypeVar("T")


class PeerProcess:
    """Takes one order at a time. A process that failed is ended, and the next order starts a new one."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: Process | None = None
        self._words: IO[bytes] | None = None

    async def ask(self, order: dict[str, Any], kind: type[T]) -> T:
        """Send an order, and wait for its answer."""
        if self._process is None:
            await self._start()
        return await self.next_answer(order, kind, order["seconds"])

    async def next_answer(self, said: Any, kind: type[T], seconds: float = 0.0) -> T:
        """Send a line to the process, and wait for one from it."""
        try:
            line = await with_timeout(self._exchange(msgspec.json.encode(said)), seconds + START_AND_STOP)
        except (TimeoutError, ConnectionError) as error:
            why = self._last_words() or type(error).__name__
            await self.close()
            raise Failed(f"no answer within {seconds + START_AND_STOP:.0f} s: {why}") from error
        if not line:
            why = self._last_words()
            await self.close()
            raise Failed(f"it ended early: {why}")
        return msgspec.json.decode(line, type=kind)

    async def close(self) -> None:
        """End the process: by closing its input, or else by force."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await with_timeout(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._words is not None:
            self._words.close()

    async def _start(self) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=self._words, limit=LONGEST_LINE
        )

    async def _exchange(self, line: bytes) -> bytes:
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise ConnectionError("the process has ended")
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()
        return await self._process.stdout.readline()

    def _last_words(self) -> str:
        """Return the last line it wrote to stderr: the error, if that was a traceback."""
        if self._words is None or self._words.closed:
            return ""
        self._words.seek(max(0, self._words.seek(0, 2) - LAST_WORDS))
        lines = [line for line in self._words.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"
