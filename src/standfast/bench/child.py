"""The worker process of the bench: it reads a task, works, and answers in lines of JSON."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from standfast.application import Standfast
from standfast.bench.latency import Probes, wait_for
from standfast.concurrency.threads import short_turns
from standfast.wings.effects.handler_job import Job

Program = Literal["drain", "probe", "idle"]

SLOTS = 512
"""Slots of the draining worker: no-op jobs are limited by transactions, and each transaction takes what fits."""


class BenchTask(msgspec.Struct, frozen=True, kw_only=True):
    """Which program to run, on which queue of which store, for how many jobs or seconds."""

    program: Program
    url: str
    queue: str
    count: int = 0
    seconds: float = 0.0


class Drained(msgspec.Struct, frozen=True):
    """The result of a drain. Memory is in bytes, and absent if the kernel does not report it."""

    ran: int
    seconds: float
    """From the first claim until the last end is on disk."""
    steady: int
    """How many jobs followed the first until the count was reached or the time was up, in `steady_seconds`."""
    steady_seconds: float
    cpu: float
    memory_early: int | None
    """After a tenth of the jobs."""
    memory_late: int | None
    memory_peak: int | None


class Idled(msgspec.Struct, frozen=True):
    """The processor time used by a worker without work."""

    seconds: float
    cpu: float


def memory(field: str) -> int | None:
    """Read this process's memory in bytes: `VmRSS` now, `VmHWM` at its peak."""
    table = Path("/proc/self/status")
    for line in table.read_text().splitlines() if table.exists() else ():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


def tell(answer: Any) -> None:
    """Send one line to the parent."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


class Drain:
    """A handler that does nothing, and counts its runs."""

    def __init__(self, count: int) -> None:
        self._ran = 0
        self._marks = {1: self._first, max(2, count // 10): self._tenth, count: self._last}
        self._began = 0.0
        self._steady = (0, 0.0)
        self._early: int | None = None
        self._late: int | None = None
        self._over = asyncio.Event()

    async def noop(self, _job: Job) -> None:
        """Do nothing."""
        self._ran += 1
        if self._ran in self._marks:
            self._marks[self._ran]()

    def _first(self) -> None:
        self._began = time.monotonic()

    def _tenth(self) -> None:
        self._early = memory("VmRSS")

    def _last(self) -> None:
        self._steady = (max(0, self._ran - 1), time.monotonic() - self._began)
        self._late = memory("VmRSS")
        self._over.set()

    async def run(self, order: BenchTask) -> Drained:
        """Work until the count is reached or the time is up."""
        sf = Standfast(order.url)
        sf.handler(order.queue)(self.noop)
        async with sf, sf.worker([order.queue], concurrency=SLOTS) as worker:
            cpu, began = time.process_time(), time.monotonic()
            if not await wait_for(self._over, order.seconds):
                self._last()
            await worker.drain()
            seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        return Drained(self._ran, seconds, *self._steady, cpu, self._early, self._late, memory("VmHWM"))


async def drain(order: BenchTask) -> None:
    """Run no-op jobs, and report how fast."""
    tell(await Drain(order.count).run(order))


async def probe(order: BenchTask) -> None:
    """Note when each probe starts, until the parent says how many it sent."""
    probes = Probes()
    sf = Standfast(order.url)
    sf.handler(order.queue)(probes.note)
    async with sf, sf.worker([order.queue]):
        tell("ready")
        sent = await asyncio.to_thread(sys.stdin.readline)
        tell(await probes.wait(int(sent or 0)))


async def idle(order: BenchTask) -> None:
    """Wait for work that never comes, and report the cost of waiting."""
    sf = Standfast(order.url)
    sf.handler(order.queue)(Drain(1).noop)
    async with sf, sf.worker([order.queue]):
        await asyncio.sleep(min(1.0, order.seconds))  # start-up costs are not idling
        began, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(order.seconds)
        tell(Idled(time.monotonic() - began, time.process_time() - cpu))


PROGRAMS = {"drain": drain, "probe": probe, "idle": idle}


def main() -> None:
    """Run the program of the task in the first argument."""
    order = msgspec.json.decode(sys.argv[1], type=BenchTask)
    with short_turns():  # the same as in `standfast worker`
        asyncio.run(PROGRAMS[order.program](order))


if __name__ == "__main__":
    main()
