"""The child processes of one program, as its worker handles them: started, lent to one job each, killed as a group.

A child is a program of its own, never a fork, because the worker has threads. After its job it is kept for the next.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import Process
from contextlib import ExitStack, suppress
from functools import partial
from typing import NamedTuple

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.concurrency.threads import with_timeout
from standfast.printable import printable
from standfast.wings.isolation.messages import (
    LENGTH,
    LogLine,
    Place,
    Prepare,
    Prepared,
    ToChild,
    ToParent,
    framed,
    read_in_parent,
)
from standfast.wings.isolation.rules import LONGEST_PAUSE

log = logging.getLogger("standfast.worker")

LONGEST_START = 60.0
"""Seconds a child may take to start and to import the application."""
KEPT_FOR = 60.0
"""Seconds a child without work is kept."""
REMEMBERED = LONGEST_START + 2 * LONGEST_PAUSE
"""Seconds after which a failure to start one counts no more for `health`: by then there would have been another try."""
LONGEST_REASON = 500
LAST_WORDS = 1.0
"""Seconds after its end in which a child's last messages may still arrive, if another process holds its socket."""
STARTS = (sys.executable, "-m", "standfast.wings.isolation.child_main")


class Gone(ConnectionError):
    """The child ended without a message; `how` says by which signal or exit code, `kind` in one word."""

    def __init__(self, code: int) -> None:
        self.kind = f"exit_{code}" if code >= 0 else _signal_name(-code)
        self.how = f"ended with exit code {code}" if code >= 0 else f"was killed by {self.kind}"
        super().__init__(f"its process {self.how}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal_{number}"


class StartFailed(OSError):
    """No child could be made ready for a handler; `times` is how often in a row."""

    def __init__(self, why: str, times: int) -> None:
        super().__init__(why)
        self.times = times


class LastFailure(NamedTuple):
    """Why no child could be made ready for a handler, how often in a row, and when, by `time.monotonic`."""

    why: str
    times: int
    at: float


class Child:
    """One child process, and the socket to it."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.loop = asyncio.get_running_loop()
        self._over = self.loop.create_task(self._watch())
        self.retiring: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls) -> Child:
        """Start a process in a session of its own: Ctrl-C is for the worker, and its group is killed as one."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            process = await asyncio.create_subprocess_exec(
                *STARTS,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            undo.pop_all()
        return cls(process, *await asyncio.open_connection(sock=ours))

    async def _watch(self) -> None:
        await self._process.wait()
        await asyncio.sleep(LAST_WORDS)
        self._writer.transport.abort()

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    async def send(self, message: ToChild) -> None:
        """Send a message. If the child is gone, the message is lost, and `receive` says so."""
        with suppress(ConnectionError):
            self._writer.write(framed(message))
            await self._writer.drain()

    async def receive(self) -> ToParent:
        """Wait for a message; raise Gone if the child ended instead. Its log lines are logged here when they come."""
        while True:
            try:
                header = await self._reader.readexactly(LENGTH.size)
                message: ToParent = read_in_parent(await self._reader.readexactly(LENGTH.unpack(header)[0]))
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise await self._end() from error
            if not isinstance(message, LogLine):
                return message
            _log(message)

    async def _end(self) -> Gone:
        """Say how it ended, once it has; a child that closed its socket and goes on is killed."""
        with suppress(TimeoutError):
            await with_timeout(self._process.wait(), LAST_WORDS)
        await self.kill()
        return Gone(self._process.returncode or 0)

    async def prepare(self, place: Place) -> str | None:
        """Let it import the module that registers a handler; return why it cannot run it, if so."""
        await self.send(Prepare(place, [*sys.path], logging.getLogger().getEffectiveLevel()))
        answer = await self.receive()
        while not isinstance(answer, Prepared):  # a thread left behind by an earlier handler still reports
            answer = await self.receive()
        return answer.error

    async def kill(self) -> None:
        """Kill it with everything it started, and wait until it is over."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self.loop.is_closed():  # nothing can be awaited any more
            return
        await self._process.wait()
        self._over.cancel()
        self._writer.transport.abort()


_unlogged = logging.Handler()
"""Reports records that cannot be logged, as every handler does."""


def _log(line: LogLine) -> None:
    """Log a line of the child as if it had been logged here. The attempt goes on if it cannot be logged."""
    logger = logging.getLogger(line.name)
    if logger.isEnabledFor(line.level):
        record = logger.makeRecord(line.name, line.level, line.file, line.line, line.text, (), None, line.function)
        record.exc_text = line.trace
        call_guarded(partial(logger.handle, record), lambda _error: _unlogged.handleError(record))


async def _prepared(child: Child, place: Place) -> Child | str:
    """Let a child import a handler; return why it cannot, if so. One that is not ready then is killed."""
    ready = False
    try:
        error = await with_timeout(child.prepare(place), LONGEST_START)
        ready = error is None
    except TimeoutError as failed:
        raise OSError(f"its process was not ready after {LONGEST_START:g} s") from failed
    except (Gone, msgspec.MsgspecError) as failed:
        raise OSError(str(failed)) from failed
    finally:
        if not ready:
            await child.kill()
    return child if error is None else error


class Children:
    """The children of one program, separate for each event loop. Idle ones are kept for a while."""

    def __init__(self) -> None:
        self._idle: dict[asyncio.AbstractEventLoop, list[Child]] = {}
        self._failures: dict[Place, LastFailure] = {}

    async def lend(self, place: Place) -> Child | str:
        """Return a child that has a handler imported, or why there can be none; raise StartFailed if none starts.

        Jobs that fail to get a child at the same time count as one failure.
        """
        before = self._failures.get(place)
        times = 1 if before is None else before.times + 1
        try:
            found = await self._ready(place)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started that waits for its end
            why = printable(str(error)[:LONGEST_REASON])
            self._failures[place] = LastFailure(why, times, time.monotonic())
            raise StartFailed(why, times) from error
        self._failures.pop(place, None)
        return found

    def failing(self, place: Place) -> str | None:
        """Return why no child starts for a handler, if that failed lately, and more than once in a row."""
        failure = self._failures.get(place)
        if failure is None or failure.times == 1 or time.monotonic() - failure.at > REMEMBERED:
            return None
        return failure.why

    async def _ready(self, place: Place) -> Child | str:
        while (idle := self._idle_child()) is not None:
            with suppress(OSError):  # an earlier handler left something behind that spoiled it
                return await _prepared(idle, place)
        return await _prepared(await Child.start(), place)

    def _idle_child(self) -> Child | None:
        idle = self._idle.get(asyncio.get_running_loop(), [])
        while idle:
            child = idle.pop()
            if child.retiring is not None:
                child.retiring.cancel()
            if child.alive:
                return child
        return None

    def take_back(self, child: Child) -> None:
        """Keep a child for the next job, unless its loop is gone."""
        loop = child.loop
        if loop.is_closed():
            return
        for gone in [each for each in self._idle if each.is_closed()]:
            del self._idle[gone]
        idle = self._idle.setdefault(loop, [])
        idle.append(child)
        child.retiring = loop.call_later(KEPT_FOR, self._retire, child, idle)

    def _retire(self, child: Child, idle: list[Child]) -> None:
        if child in idle:
            idle.remove(child)
            self._retired = asyncio.get_running_loop().create_task(child.kill())

    async def close(self) -> None:
        """End the idle children of this loop."""
        for child in self._idle.pop(asyncio.get_running_loop(), []):
            if child.retiring is not None:
                child.retiring.cancel()
            await child.kill()
