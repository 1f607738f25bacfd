"""The rounds: each step measures standfast and its counterparts in turn; every second round runs in reverse order."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from standfast.bench import draining, enqueueing, features, starting
from standfast.bench.figure import Figure, Figures
from standfast.bench.idling import idle
from standfast.bench.raw import RawQueue
from standfast.bench.sizes import BULK, CALLERS, Sizes
from standfast.bench.stores import WORK, BenchStore, Say, opened, with_backlog


class Bench(msgspec.Struct, frozen=True):
    """What every step works on."""

    place: Path
    sizes: Sizes
    small: BenchStore
    middle: BenchStore
    large: BenchStore


ENQUEUES = {
    "enqueue_one": enqueueing.one_caller,
    "enqueue_64": enqueueing.many_callers,
    "bulk": enqueueing.bulk,
}
Step = Callable[[Bench], Awaitable[Figures]]
Rounds = dict[str, list[Figure]]
"""Each figure by name, with one value for each round."""


@asynccontextmanager
async def prepared(place: Path, sizes: Sizes, say: Say) -> AsyncIterator[Bench]:
    """Fill the standing backlogs."""
    async with (
        with_backlog(place, sizes.small, sizes.fill_seconds, say) as small,
        with_backlog(place, sizes.middle, sizes.fill_seconds, say) as middle,
        with_backlog(place, sizes.large, sizes.fill_seconds, say) as large,
    ):
        yield Bench(place, sizes, small, middle, large)


async def measure(place: Path, sizes: Sizes, rounds: int, say: Say) -> Rounds:
    """Measure everything, round by round."""
    found: Rounds = defaultdict(list)

    def keep(figures: Figures) -> None:
        for name, figure in figures.items():
            found[name].append(figure)

    async with prepared(place, sizes, say) as bench:
        for number in range(1, rounds + 1):
            for title, step in STEPS if number % 2 else reversed(STEPS):
                say(f"round {number} of {rounds}: {title}")
                keep(await step(bench))
        say(f"an idle worker, for {sizes.idle_seconds:.0f} s")
        keep(await idle(place, sizes.idle_seconds))
        say(f"the memory of a worker that drains {sizes.large:,} jobs")
        keep(await draining.watching_memory(bench.large, sizes.large, sizes.drain_all_seconds))
    return dict(found)


async def enqueues(bench: Bench) -> Figures:
    """Measure one caller and 64 callers, compared with raw one-row commits and raw 64-row transactions."""
    sizes = bench.sizes
    figures = {"raw_one_row": _raw_inserts(bench, 1, sizes.one_at_a_time)}
    figures["raw_commit"] = _milliseconds(figures["raw_one_row"])
    async with opened(bench.place) as store:
        await store.fill(WORK, sizes.warm_up)
        figures["enqueue_one"] = await enqueueing.one_caller(store.sf, WORK, sizes.one_at_a_time, sizes.seconds)
        figures["enqueue_64"] = await enqueueing.many_callers(store.sf, WORK, sizes.by_callers, sizes.seconds)
    figures["raw_64_rows"] = _raw_inserts(bench, CALLERS, sizes.by_callers)
    return figures


async def bulks(bench: Bench) -> Figures:
    """Measure bulk enqueues of 1 000 jobs, compared with raw 1 000-row transactions."""
    sizes = bench.sizes
    figures = {"raw_1000_rows": _raw_inserts(bench, BULK, sizes.by_bulk)}
    async with opened(bench.place) as store:
        await store.fill(WORK, sizes.warm_up)
        figures["bulk"] = await enqueueing.bulk(store.sf, WORK, sizes.by_bulk, sizes.seconds)
    return figures


async def drains(bench: Bench) -> Figures:
    """Drain to empty, compared with raw claims and completions in one transaction."""
    sizes = bench.sizes
    with _raw(bench.place, sizes.drained) as queue:
        figures = {"raw_claim_complete": queue.claims_and_completes(sizes.seconds)}
    async with opened(bench.place) as store:
        await store.fill(WORK, sizes.drained)
        figures["drain"] = await draining.to_empty(store, WORK, sizes.drained, sizes.seconds)
    return figures


async def drains_of_backlogs(bench: Bench) -> Figures:
    """Take the same number of jobs out of the large backlog and out of the middle one."""
    sizes = bench.sizes
    return {
        "drain_large": await draining.from_backlog(bench.large, sizes.drained, sizes.seconds),
        "drain_middle": await draining.from_backlog(bench.middle, sizes.drained, sizes.seconds),
    }


async def starts(bench: Bench) -> Figures:
    """Measure from enqueue to start on an idle system, in the process and across processes."""
    async with opened(bench.place) as store:
        inside = await starting.in_the_process(store, bench.sizes)
        return inside | await starting.across_processes(store, bench.sizes)


async def beside_backlogs(bench: Bench) -> Figures:
    """Measure next to the small backlog and next to the large one, each figure right after its counterpart.

    The backlog waits in another queue of the same tables; the jobs enqueued for the measurement are then drained.
    """
    found: Figures = {}
    stores = {"small": bench.small, "large": bench.large}
    jobs = dict.fromkeys(stores, 0)
    for kind, enqueue in ENQUEUES.items():
        for name, store in stores.items():
            most = bench.sizes.one_beside_backlog if kind == "enqueue_one" else bench.sizes.beside_backlog
            figure = await enqueue(store.sf, WORK, most, bench.sizes.seconds)
            found[f"{name}.{kind}"] = figure
            jobs[name] += figure.count
    for name, store in stores.items():
        found[f"{name}.drain"] = await draining.to_empty(store, WORK, jobs[name], bench.sizes.seconds)
    for start in (starting.in_the_process, starting.across_processes):
        for name, store in stores.items():
            found |= _named(name, await start(store, bench.sizes))
    return found


async def with_features(bench: Bench) -> Figures:
    """Measure plain jobs, and as many with each feature."""
    async with opened(bench.place) as store:
        return await features.one_by_one(store.sf, bench.sizes.with_feature)


@contextmanager
def _raw(place: Path, rows: int) -> Iterator[RawQueue]:
    """Yield a raw queue with this many rows, in its own directory."""
    with tempfile.TemporaryDirectory(prefix="raw-", dir=place) as directory:
        queue = RawQueue(Path(directory) / "raw.db", rows)
        try:
            yield queue
        finally:
            queue.close()


def _raw_inserts(bench: Bench, per_transaction: int, most: int) -> Figure:
    with _raw(bench.place, bench.sizes.warm_up) as queue:
        return queue.inserts(per_transaction, most, bench.sizes.seconds)


def _milliseconds(rate: Figure) -> Figure:
    return Figure(1e3 / rate.value, rate.count, rate.seconds)


STEPS: list[tuple[str, Step]] = [
    ("enqueue by one caller and by 64", enqueues),
    ("enqueue in bulk", bulks),
    ("drain to empty", drains),
    ("drain from standing backlogs", drains_of_backlogs),
    ("from enqueue to start", starts),
    ("beside a small and a large backlog", beside_backlogs),
    ("with one feature at a time", with_features),
]


def _named(backlog: str, figures: Figures) -> Figures:
    return {f"{backlog}.{name}": figure for name, figure in figures.items()}
