"""What a step of a workflow costs compared with a single job, and whether that grows with the graph, on this machine.

    python benchmarks/workflow.py [--url postgresql://…] [--steps 1000] [--rounds 5] [--shapes wide,grid,chain]

Steps and jobs do nothing. The measure is everything from the first call to the last end on disk, per step: elapsed
time, and the processor time of this process. `wide` is one step, many after it, and one after all of them. `grid` has
two hundred steps in each row, each after two of the row above. Both are compared with as many single jobs, enqueued at
once by as many calls, and with one `enqueue_many`. In `chain`, each step comes after the one before: it is compared
with jobs of which each is enqueued when the one before has run. All take turns, and the medians are printed. With
`--url`, the jobs stay in that store: name an empty schema.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from standfast import Job, Standfast

ROW = 200
Graph = Iterator[tuple[str, list[str]]]
Run = Callable[[Standfast, int], Awaitable[None]]


class Count:
    """Counts handlers that ran, and wakes a task that waits for a number of them."""

    def __init__(self) -> None:
        self.number = self.wanted = 0
        self.there: asyncio.Future[None] | None = None

    def up(self) -> None:
        """Count one more."""
        self.number += 1
        if self.number == self.wanted and self.there is not None:
            self.there.set_result(None)
            self.there = None

    async def reached(self, number: int) -> None:
        """Wait until this many handlers ran."""
        self.wanted = number
        if self.number < number:
            self.there = asyncio.get_running_loop().create_future()
            await self.there


COUNT = Count()


def wide(steps: int) -> Graph:
    """Yield one step, many after it, and one after all of them."""
    yield "first", []
    middle = [f"step {n}" for n in range(steps - 2)]
    yield from ((name, ["first"]) for name in middle)
    yield "last", middle


def grid(steps: int) -> Graph:
    """Yield rows of steps, each after two of the row above."""
    for n in range(steps):
        row, column = divmod(n, ROW)
        above = {column, (column + 1) % ROW} if row else set()
        yield f"{row}/{column}", [f"{row - 1}/{each}" for each in sorted(above)]


def chain(steps: int) -> Graph:
    """Yield steps of which each comes after the one before."""
    for n in range(steps):
        yield str(n), [str(n - 1)] if n else []


SHAPES = {"wide": wide, "grid": grid, "chain": chain}


def workflow(shape: str) -> Run:
    """Run a workflow of this shape to its end."""

    async def run(sf: Standfast, steps: int) -> None:
        builder = sf.workflow(shape)
        for name, after in SHAPES[shape](steps):
            builder.step(name, "work", after=after)
        await builder.start()
        await COUNT.reached(steps)

    return run


async def at_once(sf: Standfast, jobs: int) -> None:
    """Run this many jobs, each enqueued by its own call, all at once."""
    await asyncio.gather(*(sf.enqueue("work") for _ in range(jobs)))
    await COUNT.reached(jobs)


async def in_bulk(sf: Standfast, jobs: int) -> None:
    """Run this many jobs, enqueued by one call."""
    await sf.enqueue_many("work", [None] * jobs)
    await COUNT.reached(jobs)


async def one_after_the_other(sf: Standfast, jobs: int) -> None:
    """Run this many jobs, each enqueued when the one before has run."""
    for number in range(1, jobs + 1):
        await sf.enqueue("work")
        await COUNT.reached(number)


async def timed(sf: Standfast, run: Run, steps: int) -> tuple[float, float]:
    """Run something with a worker; return microseconds per step: elapsed, and of processor time."""
    COUNT.number = 0
    begin, computed = time.perf_counter(), time.process_time()
    async with sf.worker(concurrency=256) as worker:
        await run(sf, steps)
        await worker.drain()
    return (time.perf_counter() - begin) / steps * 1e6, (time.process_time() - computed) / steps * 1e6


async def measure(url: str, shape: str, steps: int, rounds: int) -> None:
    """Take turns and print the medians."""
    sf = Standfast(url)

    @sf.handler("work")
    async def work(job: Job) -> None:  # noqa: ARG001 - it does nothing
        COUNT.up()

    others = (
        {"one after the other": one_after_the_other}
        if shape == "chain"
        else {"single jobs": at_once, "in bulk": in_bulk}
    )
    runs: dict[str, Run] = {shape: workflow(shape), **others}
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    async with sf:
        for _ in range(rounds):
            for name, run in runs.items():
                took[name].append(await timed(sf, run, steps))
    medians = {name: [statistics.median(each) for each in zip(*times, strict=True)] for name, times in took.items()}
    for name, (passed, computed) in medians.items():
        beside = [mine / theirs - 1 for mine, theirs in zip(medians[shape], (passed, computed), strict=True)]
        more = "" if name == shape else f"; a step: {beside[0]:+.0%} and {beside[1]:+.0%}"
        print(f"{steps:6} {name:20} {passed:7.0f} µs passed, {computed:6.0f} µs computed{more}")


def main() -> None:
    """Measure each shape in its own store, or all in the one at `--url`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default="wide,grid,chain")
    given = parser.parse_args()
    for shape in given.shapes.split(","):
        with tempfile.TemporaryDirectory() as directory:
            url = given.url or str(Path(directory) / "queue.db")
            asyncio.run(measure(url, shape, given.steps, given.rounds))


if __name__ == "__main__":
    main()
