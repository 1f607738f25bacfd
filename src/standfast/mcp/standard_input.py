"""Standard input, read so that a server that is told to stop does, although its client is still connected."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_LINE = 1 << 28
"""Bytes of one message."""
INPUT, OUTPUT = 0, 1


class Lines:
    """The lines of a stream, as text."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")


@asynccontextmanager
async def interruptible_input() -> AsyncIterator[Lines | None]:
    """Yield the lines that the client sends; None if standard input is no pipe, and the library must read it.

    The library reads in a thread, which cannot be interrupted: a server that got a signal would wait for its client's
    next line. Meanwhile handlers and their child processes find an empty standard input: the lines are not for them.
    """
    if not _is_pipe():
        yield None
        return
    wire = os.dup(INPUT)
    _divert()
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(wire, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        yield Lines(reader)
    finally:
        transport.close()


def _is_pipe() -> bool:
    """Return whether input can be awaited without a thread, and awaiting it does not affect the output."""
    if os.name == "nt":
        return False
    mode = os.fstat(INPUT).st_mode
    return stat.S_ISFIFO(mode) or (stat.S_ISSOCK(mode) and not os.path.sameopenfile(INPUT, OUTPUT))


def _divert() -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, INPUT)
    os.close(empty)
