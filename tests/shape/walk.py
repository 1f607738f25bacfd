"""Count what one plain job visits, in a process of its own: profiling slows down whatever else runs there.

    python tests/shape/walk.py DIRECTORY

It prints JSON: for `enqueue` and for `run` (from the claim to completed, with a result) the functions of the package as
`file name`, and the SQL statements, BEGIN and COMMIT included.

Each way is walked several times, and what every walk has in common is counted: a beat of the worker that happens to
fall into one of them belongs to no job.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import reduce
from operator import and_
from pathlib import Path
from types import FrameType
from typing import Any

import apsw

import standfast
from standfast import Standfast
from standfast.store import waiting_requests as leading

PACKAGE = f"{Path(standfast.__file__).parent}/"
WALKS = 4
QUIET = 0.1
"""Seconds without a call after which a walk is over."""
LONGEST = 10.0
DELAY = 0.7
"""Seconds after which a job is due: its own enqueue is over by then."""
leading.SLOWEST_LED = LONGEST  # profiling makes a loaded machine look too slow to lead, and the other way is longer
PAYLOAD = {"n": 99, "text": "x" * 150}


class Walk:
    """What was visited since the recording began."""

    def __init__(self) -> None:
        self.functions: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self._recording = False
        self._last_call = time.monotonic()

    def begin(self) -> None:
        """Forget what was visited, and record."""
        self.functions, self.statements = Counter(), Counter()
        self._recording = True

    def end(self) -> tuple[Counter[str], Counter[str]]:
        """Stop recording; give each function and each statement that was visited."""
        self._recording = False
        return Counter(set(self.functions)), self.statements

    def called(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Hear of a call, as `sys.setprofile` tells it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        self._last_call = time.monotonic()
        if self._recording:
            self.functions[f"{code.co_filename.removeprefix(PACKAGE)} {code.co_qualname}"] += 1

    def executed(self, _cursor: apsw.Cursor, statement: str, _bindings: Any) -> bool:
        """Hear of a statement, as apsw tells it; let it go on."""
        if self._recording:
            self.statements[" ".join(statement.split())] += 1
        return True

    async def quiet(self) -> None:
        """Wait until the package has done nothing for a while."""
        deadline = time.monotonic() + LONGEST
        while (now := time.monotonic()) - self._last_call < QUIET:
            assert now < deadline, "the package is never quiet"
            await asyncio.sleep(QUIET / 10)


async def walk_enqueue(walk: Walk, sf: Standfast) -> None:
    """Record one enqueue into a store that nobody works on."""
    await walk.quiet()
    walk.begin()
    await sf.enqueue("plain", PAYLOAD)
    await walk.quiet()


async def walk_run(walk: Walk, sf: Standfast, entered: asyncio.Event) -> None:
    """Record one run; the job was enqueued before, and becomes due while nothing else happens."""
    await enqueue_ahead(walk, sf, entered)
    walk.begin()
    await asyncio.wait_for(entered.wait(), LONGEST)
    await walk.quiet()


async def enqueue_ahead(walk: Walk, sf: Standfast, entered: asyncio.Event) -> None:
    """Enqueue a job that is due only after its enqueue is over, however busy the machine is."""
    delay = DELAY
    while True:
        entered.clear()
        await sf.enqueue("plain", PAYLOAD, delay=delay)
        await walk.quiet()
        if not entered.is_set():
            return
        delay *= 2


def common(walks: list[tuple[Counter[str], Counter[str]]]) -> dict[str, list[str]]:
    """Give what all walks visited."""
    functions, statements = (reduce(and_, counted) for counted in zip(*walks, strict=True))
    return {"functions": sorted(functions), "statements": sorted(statements.elements())}


async def several(walk: Walk, once: Callable[[], Awaitable[None]]) -> dict[str, list[str]]:
    """Walk a way as often as needed, once more beforehand: the first one opens and loads what all others find."""
    await once()
    walks = []
    for _ in range(WALKS):
        await once()
        walks.append(walk.end())
    return common(walks)


async def main(directory: Path) -> dict[str, Any]:
    """Walk both ways. A worker looks every second after the others of its host: here it has none."""
    os.environ["XDG_STATE_HOME"] = tempfile.tempdir = str(directory)
    walk = Walk()
    apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(walk.executed))
    threading.setprofile(walk.called)
    sys.setprofile(walk.called)
    async with Standfast(directory / "enqueue.db") as sf:
        handle(sf)
        enqueue = await several(walk, lambda: walk_enqueue(walk, sf))
    async with Standfast(directory / "run.db") as sf:
        entered = handle(sf)
        async with sf.worker():
            run = await several(walk, lambda: walk_run(walk, sf, entered))
            walk.end()
    sys.setprofile(None)
    return {"enqueue": enqueue, "run": run}


def handle(sf: Standfast) -> asyncio.Event:
    """Register a handler with a result; give the event that it sets."""
    entered = asyncio.Event()

    @sf.handler("plain")
    async def plain(_job):
        entered.set()
        return {"ok": 1}

    return entered


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))  # noqa: T201 - read by the test
