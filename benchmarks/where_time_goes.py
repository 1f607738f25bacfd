# ruff: noqa: SLF001 - a profile looks inside
"""Show where the engine spends processor time: by thread, by phase of a round, by statement, in microseconds per job.

    python benchmarks/where_time_goes.py one|callers|bulk|drain [--jobs 20000] [--slots 64] [--functions]

It counts processor time, which a busy machine distorts less than wall-clock time; `standfast bench` measures speed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast import Job
from standfast.application import Standfast
from standfast.bench import enqueueing
from standfast.bench.stores import WORK, BenchStore, opened
from standfast.store.sqlite import sqlite_engine as engine

SHOWN_FUNCTIONS = 25


class Ledger:
    """Calls and processor time by name, for the calling thread."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0])

    def around(self, function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """Return the function with its processor time measured."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                entry = self.spent[name(*args)]
                entry[0] += 1
                entry[1] += time.thread_time() - began

        return timed

    def show(self, jobs: int) -> None:
        """Print the processor time spent, the most first."""
        for name, (calls, seconds) in sorted(self.spent.items(), key=lambda item: -item[1][1]):
            print(
                f"  {name:24} {calls:7} calls {seconds / calls * 1e6:9.1f} us/call {seconds / jobs * 1e6:8.2f} us/job"
            )


def instrument(ledger: Ledger) -> dict[str, Any]:
    """Measure statements and phases; return a dict that gets the writer thread's clock."""
    engine._execute = ledger.around(engine._execute, lambda _connection, name, *_: name)
    writer: dict[str, Any] = {}
    run = engine.SqliteEngine._run
    for phase in ("_serve", "_transact", "_begin", "_drive", "_commit", "_finish"):
        timed = ledger.around(getattr(engine.SqliteEngine, phase), lambda *_, phase=phase: f"({phase.strip('_')})")
        setattr(engine.SqliteEngine, phase, timed)

    def run_seen(self: engine.SqliteEngine) -> None:
        writer["clock"] = time.pthread_getcpuclockid(threading.get_ident())
        run(self)

    engine.SqliteEngine._run = run_seen
    return writer


async def work(what: str, store: BenchStore, jobs: int, slots: int) -> int:
    """Run the workload to profile; return how many jobs it was."""
    sf: Standfast = store.sf
    if what == "one":
        return (await enqueueing.one_caller(sf, WORK, jobs, 60)).count
    if what == "callers":
        return (await enqueueing.many_callers(sf, WORK, jobs, 60)).count
    if what == "bulk":
        return (await enqueueing.bulk(sf, WORK, jobs, 60)).count
    left, over = [jobs], asyncio.Event()

    @sf.handler(WORK)
    async def noop(_job: Job) -> None:
        left[0] -= 1
        if left[0] == 0:
            over.set()

    async with sf.worker([WORK], slots):
        await over.wait()
    return jobs


async def main() -> None:
    """Run one workload and print where its time went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("one", "callers", "bulk", "drain"))
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--functions", action="store_true", help="profile the loop's functions too; this distorts")
    given = parser.parse_args()
    ledger = Ledger()
    writer = instrument(ledger)
    functions = cProfile.Profile(time.thread_time)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        async with opened(Path(place)) as store:
            await store.fill(WORK, given.jobs)
            ledger.spent.clear()
            before = time.process_time(), time.thread_time(), time.clock_gettime(writer["clock"]), time.perf_counter()
            if given.functions:
                functions.enable()
            jobs = await work(given.what, store, given.jobs, given.slots)
            functions.disable()
            after = time.process_time(), time.thread_time(), time.clock_gettime(writer["clock"]), time.perf_counter()
    everything, loop, writing, wall = ((end - start) / jobs * 1e6 for end, start in zip(after, before, strict=True))
    print(f"{given.what}: {1e6 / wall:,.0f} jobs/s; us of processor time per job: {everything:.1f}")
    print(f"  of it the loop's thread {loop:.1f}, the writer's thread {writing:.1f}")
    ledger.show(jobs)
    if given.functions:
        pstats.Stats(functions).sort_stats("tottime").print_stats(SHOWN_FUNCTIONS)


if __name__ == "__main__":
    asyncio.run(main())
