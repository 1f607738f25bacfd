"""A program in its own process group: started on a signal, followed to its end, killed with all it started.

Which process it is (`Identity`) is known before its first instruction, so that it can be recorded first and found
again by another worker.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from standfast.concurrency.threads import with_timeout
from standfast.concurrency.user_code import call_user_code
from standfast.wings.commands.orphans import identify

LAUNCH = Path(__file__).with_name("launch.py")
CHUNK = 64 << 10
LEFT_OVER = 1 << 20
"""Bytes still read from an output once its program is gone: a process that left the group may write on forever."""


class NotStarted(OSError):
    """The program could not be started: certainly nothing of it ran."""


class Output(msgspec.Struct, frozen=True):
    """The end of a program's output, and whether there was more."""

    kept: bytes = b""
    cut: bool = False


class Exit(msgspec.Struct, frozen=True):
    """How a program ended: its exit code, below zero the signal that killed it; and its outputs."""

    code: int
    stdout: Output = Output()
    stderr: Output = Output()


class Tail:
    """The last bytes of an output of any length."""

    def __init__(self, pipe: Any, cap: int) -> None:
        self._descriptor: int = pipe.fileno()
        self._pipe = pipe
        self._cap = cap
        self._kept = bytearray()
        self._cut = False
        os.set_blocking(pipe.fileno(), False)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _read(self) -> bool:
        """Read what is there; return whether there was anything."""
        try:
            chunk = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return False
        self._kept += chunk
        if len(self._kept) > self._cap:
            self._cut = True
            del self._kept[: len(self._kept) - self._cap]
        return True

    def close(self) -> Output:
        """Read what is left, up to a bound, and return what is kept."""
        if not self._pipe.closed:
            for _ in range(LEFT_OVER // CHUNK):
                if not self._read():
                    break
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._pipe.close()
        return Output(bytes(self._kept), self._cut)


class Process:
    """A program that waits for its start. `async with` ensures that nothing of its group is left behind."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: str | None = None,
        stdin: bytes | None = None,
        cap: int = 0,
        grace: float = 0.0,
    ) -> None:
        self._grace = grace
        self._program = argv[0]
        gate, self._gate = os.pipe()
        self._told, told = os.pipe()
        try:
            with _file_of(stdin) as given:
                command = [sys.executable, "-I", "-S", str(LAUNCH), str(gate), str(told), *argv]
                self._process = subprocess.Popen(  # noqa: S603 - an argv of the configuration's, and no shell
                    command,
                    env=dict(environment),
                    cwd=cwd,
                    stdin=given,
                    stdout=subprocess.PIPE if cap else subprocess.DEVNULL,
                    stderr=subprocess.PIPE if cap else subprocess.DEVNULL,
                    pass_fds=(gate, told),
                    start_new_session=True,
                )
        except OSError as error:
            self._close_gate()
            os.close(self._told)
            raise NotStarted(error.errno, error.strerror, error.filename) from error
        finally:
            os.close(gate)
            os.close(told)
        self._tails = [Tail(pipe, cap) for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        self.identity = identify(self._process.pid)

    async def run(self) -> Exit:
        """Start it, and follow it to its end."""
        with suppress(BrokenPipeError):  # it was killed while it waited, which its exit code shows
            os.write(self._gate, b"!")
        self._close_gate()
        code = await self._over()
        told = os.read(self._told, 16)
        if told:
            raise NotStarted(int(told), os.strerror(int(told)), self._program)
        return Exit(code, *self._end())

    async def _over(self) -> int:
        """Wait until the program is over but not yet reaped: until then its number is not reused.

        Its exit code is read here: a later wait returns 0 if it was reaped before.
        """
        ended = await call_user_code(os.waitid, os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        return int(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)

    def _end(self) -> list[Output]:
        """Kill what it left in its group, then reap it; return what is kept of its outputs."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        return [tail.close() for tail in self._tails]

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing of it behind."""
        try:
            await self.end()
        finally:
            os.close(self._told)

    async def end(self) -> None:
        """End it if it still runs: ask, wait a while, then kill. A second cancellation kills at once."""
        self._close_gate()
        if self._process.returncode is not None:
            return
        try:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await with_timeout(self._over(), self._grace)
        finally:
            self._end()


def _file_of(stdin: bytes | None) -> Any:
    """Return a private file that a program can read: it outlives the worker, which a pipe does not."""
    if stdin is None:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(stdin)
    file.seek(0)
    return file
