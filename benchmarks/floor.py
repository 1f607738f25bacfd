"""Show how close to raw SQLite standfast could come if its Python cost nothing.

    python benchmarks/floor.py [--rounds 5]

Each row runs the plain path's own statements on standfast's own tables, with values made beforehand and nothing around
them: no checks, no scripts, no event loop. What remains is the cost of the table layout. The 64 callers are 64 asyncio
tasks that wait for a writer thread, because that is the least that a caller who awaits its commit can do. The ratios
are the upper limits for the targets of `standfast bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import apsw

from standfast.application.wings import store_at
from standfast.bench.raw import SETTINGS, RawQueue
from standfast.bench.sizes import BULK, CALLERS, PAYLOAD_BYTES, RAW_CLAIM
from standfast.store.sqlite.sqlite_engine import STATEMENTS

ONE, MANY, DRAINED, SECONDS = 1_000, 20_000, 20_000, 20.0
NOTHING_ASKED = {"budget": None, "asked_lease": None, "asked_expiry": None, "expires_at": None}
HOT = {"queue": "q", "handler": "q", "priority": 0, "due_at": 1.0, "ready_at": 1.0, "now": 1.0, **NOTHING_ASKED}
CLAIMED = {"worker": "w", "now": 1.0, "lease": 90.0, "replay_mode": "replay", "timeout": 900.0, "attempts": 5}

Batch = list[tuple[object, ...]]


class BareQueue:
    """Standfast's tables and statements, driven by hand."""

    def __init__(self, path: Path) -> None:
        store = store_at(str(path))
        store.open()
        store.close()
        self._connection = apsw.Connection(str(path))
        for name, wanted in SETTINGS.items():
            self._connection.pragma(name, wanted)
        self._numbers = itertools.count(1)
        self.insert(self.bodies(DRAINED))

    def bodies(self, count: int) -> Batch:
        """Make rows."""
        payload = "x" * PAYLOAD_BYTES
        numbers = itertools.islice(self._numbers, count)
        return [(n, f"0190-{n:031d}", payload, None, '{"requester":"ann"}', 1.0) for n in numbers]

    def insert(self, bodies: Batch) -> None:
        """Store these jobs as one plain round does."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for some in itertools.batched(bodies, 64) if hasattr(itertools, "batched") else _batched(bodies, 64):
            execute(STATEMENTS["insert_bodies"].for_rows(len(some), 6), [*itertools.chain.from_iterable(some)])
        execute(STATEMENTS["insert_jobs"].sql, {**HOT, "numbers": json.dumps([body[0] for body in bodies])})
        self._tell("enqueued", [body[1] for body in bodies])
        execute("COMMIT")

    def claim_and_complete(self, ended: list[int]) -> list[int]:
        """Complete the jobs claimed before and claim the next ones, as one plain round does; return their numbers."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        if ended:
            execute(STATEMENTS["complete_jobs"].sql, {"now": 2.0, "numbers": json.dumps(ended), "count": len(ended)})
        wanted = {"queue": "q", "handler": "q", "priority": 0, "wanted": RAW_CLAIM}
        numbers = str(execute(STATEMENTS["claim_lane"].sql, wanted).get)
        execute(STATEMENTS["take_jobs"].sql, {**CLAIMED, "handler": "q", "numbers": numbers})
        claimed = execute(STATEMENTS["plain_claims"].sql, {"numbers": numbers}).fetchall()
        self._tell("claimed", [row[4] for row in claimed])
        self._tell("completed", [row[4] for row in claimed])
        execute("COMMIT")
        return [row[2] for row in claimed]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _tell(self, kind: str, ids: list[object]) -> None:
        entries = {"now": 1.0, "entries": json.dumps([(kind, "q", ids)])}
        self._connection.execute(STATEMENTS["write_journal"].sql, entries)
        self._connection.execute(STATEMENTS["add_counters"].for_rows(1, 4), ("q", kind, len(ids), 1.0))


def _batched(rows: Batch, size: int) -> list[Batch]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def rate(jobs: int, work: Callable[[], object]) -> float:
    """Return the jobs per second."""
    began = time.perf_counter()
    work()
    return jobs / (time.perf_counter() - began)


def inserts(bare: BareQueue, each: int, jobs: int) -> float:
    """Store `each` jobs per transaction."""
    batches = [bare.bodies(each) for _ in range(jobs // each)]
    return rate(jobs, lambda: [bare.insert(batch) for batch in batches])


def drain(bare: BareQueue) -> float:
    """Claim and complete until nothing is left."""

    def work() -> None:
        claimed = bare.claim_and_complete([])
        while claimed:
            claimed = bare.claim_and_complete(claimed)

    return rate(DRAINED, work)


def callers(bare: BareQueue) -> float:
    """Let 64 tasks wait for a writer thread, one job after the other."""
    bodies = iter(bare.bodies(MANY))
    return rate(MANY, lambda: asyncio.run(_callers(bare, bodies)))


async def _callers(bare: BareQueue, bodies: itertools.chain[tuple[object, ...]]) -> None:
    loop, handed_in = asyncio.get_running_loop(), SimpleQueue()

    def write() -> None:
        while (first := handed_in.get()) is not None:
            taken = [first]
            while not handed_in.empty():
                taken.append(handed_in.get())
            bare.insert([body for body, _ in taken])
            loop.call_soon_threadsafe(lambda answered=taken: [each.set_result(None) for _, each in answered])

    async def call() -> None:
        for body in bodies:
            answer = loop.create_future()
            handed_in.put((body, answer))
            await answer

    writer = threading.Thread(target=write)
    writer.start()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    handed_in.put(None)
    writer.join()


def main() -> None:
    """Measure in turn, and print the median of each with its ratio to raw SQLite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    found: dict[str, list[float]] = {}
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
            raw, bare = RawQueue(Path(place) / "raw.db", DRAINED), BareQueue(Path(place) / "bare.db")
            for name, value in {
                "raw drain": raw.claims_and_completes(SECONDS).value,
                "drain": drain(bare),
                "raw one": raw.inserts(1, ONE, SECONDS).value,
                "one": inserts(bare, 1, ONE),
                "raw 64": raw.inserts(CALLERS, MANY, SECONDS).value,
                "64": inserts(bare, CALLERS, MANY),
                "callers": callers(bare),
                "raw bulk": raw.inserts(BULK, MANY, SECONDS).value,
                "bulk": inserts(bare, BULK, MANY),
            }.items():
                found.setdefault(name, []).append(value)
            raw.close()
            bare.close()
    rates = {name: median(values) for name, values in found.items()}
    for words, name, beside in (
        ("one caller, of raw one-row commits", "one", "raw one"),
        ("64 callers, of raw one-row commits", "callers", "raw one"),
        ("64 callers, of raw 64-row transactions", "callers", "raw 64"),
        ("64 rows without callers, of raw 64-row transactions", "64", "raw 64"),
        ("bulk of 1 000, of raw 1 000-row transactions", "bulk", "raw bulk"),
        ("drain, of raw claim + complete", "drain", "raw drain"),
    ):
        print(f"{words:52} {rates[name]:9,.0f}/s {rates[beside]:9,.0f}/s {rates[name] / rates[beside]:6.2f}")


if __name__ == "__main__":
    main()
