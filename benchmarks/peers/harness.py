"""The program that measures a peer: the same for all of them, run by the Python of the peers' environment.

    python harness.py pgqueuer_driver

It needs only the standard library. An order is one line of JSON on stdin, its answer one line on stdout. A driver must
offer the methods of `Peer`, below; an error ends the process, and its last line of output is the reason.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, Protocol

Payload = dict[str, Any]
Handle = Callable[[Payload], None]
Order = dict[str, Any]
PATIENCE = 8.0
"""Seconds to wait for the last starts: longer than any peer's interval for polling without a hint."""
SHORTEST_PAUSE = 0.005


class Peer(Protocol):
    """A queue on the database in the URL, used as its own documentation recommends."""

    def __init__(self, url: str) -> None: ...

    async def install(self) -> None:
        """Create the tables."""

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """Connect, so that jobs can be enqueued."""

    async def enqueue(self, payload: Payload) -> None:
        """Enqueue one job; it is durable when this returns."""

    async def enqueue_many(self, payloads: list[Payload]) -> None:
        """Enqueue jobs in one call."""

    def working(self, handle: Handle) -> AbstractAsyncContextManager[Any]:
        """Run a worker, tuned for no-op jobs, whose handler calls `handle` with each payload."""


async def install(peer: Peer, _order: Order) -> Any:
    """Create the tables."""
    async with peer.opened():
        await peer.install()
    return True


async def enqueue(peer: Peer, order: Order) -> Any:
    """Enqueue from several callers at once, each one job after the other, until the count or the time is spent."""
    async with peer.opened():
        await asyncio.gather(*(peer.enqueue(order["payload"]) for _ in range(order["callers"])))  # connections open
        began, taken = time.monotonic(), 0

        async def call() -> None:
            nonlocal taken
            while taken < order["count"] and time.monotonic() < began + order["seconds"]:
                taken += 1
                await peer.enqueue(order["payload"])

        await asyncio.gather(*(call() for _ in range(order["callers"])))
        return {"count": taken, "seconds": time.monotonic() - began}


async def bulk(peer: Peer, order: Order) -> Any:
    """Enqueue a thousand jobs at a time."""
    async with peer.opened():
        began, done = time.monotonic(), 0
        while done < order["count"] and time.monotonic() < began + order["seconds"]:
            size = min(order["size"], order["count"] - done)
            await peer.enqueue_many([order["payload"]] * size)
            done += size
        return {"count": done, "seconds": time.monotonic() - began}


async def drain(peer: Peer, order: Order) -> Any:
    """Run no-op jobs; timed from the first start to the last, so that start-up time does not count against the peer."""
    ran, first, last = 0, 0.0, 0.0
    over = asyncio.Event()

    def handle(_payload: Payload) -> None:
        nonlocal ran, first, last
        if over.is_set():
            return
        last = time.monotonic()
        first = first or last
        ran += 1
        if ran >= order["count"]:
            over.set()

    async with peer.opened(), peer.working(handle):
        await soon(over, order["seconds"])
        over.set()
    return {"count": max(0, ran - 1), "seconds": last - first}


class Starts:
    """Records when each numbered job starts, on the monotonic clock that all processes of the machine share."""

    def __init__(self) -> None:
        self.seen: dict[int, float] = {}
        self._awaited = 0
        self._complete = asyncio.Event()

    def note(self, payload: Payload) -> None:
        """Record a start."""
        self.seen.setdefault(payload["probe"], time.monotonic())
        if len(self.seen) >= self._awaited > 0:
            self._complete.set()

    async def warm(self, peer: Peer, order: Order) -> None:
        """Run one job that does not count."""
        await peer.enqueue(order["payload"] | {"probe": -1})
        await self.wait(1)

    async def wait(self, count: int) -> dict[int, float]:
        """Wait for `count` starts, but not for ever; return those that came."""
        self._awaited = count
        self._complete.clear()
        if len(self.seen) < count:
            await soon(self._complete, PATIENCE)
        return {number: start for number, start in self.seen.items() if number >= 0}


async def starts_inside(peer: Peer, order: Order) -> Any:
    """Enqueue lone jobs and run them in this process."""
    starts = Starts()
    async with peer.opened(), peer.working(starts.note):
        await starts.warm(peer, order)
        calls = await probe(peer, order)
        return {"calls": calls, "starts": await starts.wait(len(calls) + 1)}


async def send(peer: Peer, order: Order) -> Any:
    """Enqueue lone jobs that another process runs."""
    async with peer.opened():
        return {"calls": await probe(peer, order)}


async def receive(peer: Peer, order: Order) -> Any:
    """Run the jobs that another process enqueues, until the next line says how many there were."""
    starts = Starts()
    async with peer.opened(), peer.working(starts.note):
        await starts.warm(peer, order)
        say("ready")
        sent = await asyncio.to_thread(sys.stdin.readline)
        return {"starts": await starts.wait(int(sent or 0) + 1)}


async def probe(peer: Peer, order: Order) -> list[float]:
    """Enqueue lone jobs, each after a random pause; return when each call was made."""
    calls: list[float] = []
    ends = time.monotonic() + order["seconds"]
    while len(calls) < order["count"] and time.monotonic() < ends:
        await asyncio.sleep(random.uniform(SHORTEST_PAUSE, order["pause"]))  # noqa: S311 - a pause is no secret
        payload = order["payload"] | {"probe": len(calls)}
        calls.append(time.monotonic())
        await peer.enqueue(payload)
    return calls


async def soon(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not for ever."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def say(answer: Any) -> None:
    """Answer with one line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


PROGRAMS = {each.__name__: each for each in (install, enqueue, bulk, drain, starts_inside, send, receive)}


def main(driver: str) -> None:
    """Serve orders until the input ends."""
    module = import_module(driver)
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        with asyncio.Runner(loop_factory=getattr(module, "LOOP", None)) as runner:
            say(runner.run(PROGRAMS[order["program"]](module.Peer(order["url"]), order)))


if __name__ == "__main__":
    main(sys.argv[1])
