"""A payload that kills its process ends dead by itself: what ran beside it completes, with its attempts unspent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from standfast import JobView, Standfast
from tests.on_disk import path, url
from tests.warm import Warm
from tests.worker.processes import ROOT, environment

__all__ = ["path", "url"]

LETHAL = ("segfault", "run out of memory", "exit")
GOOD = 200
COMMAND = ("-m", "standfast", "worker", "tests.faults.poisoned:sf", "--concurrency", "8")
IN_PROCESS = (str(Path(__file__).with_name("poisoned.py")),)


class Supervisor:
    """Keeps so many workers running, whatever ends them."""

    def __init__(self, url: str, arguments: tuple[str, ...], number: int) -> None:
        self._environment = {**environment(), "STANDFAST_URL": url}
        self._arguments = arguments
        self._workers: list[Warm] = []
        self._number = number
        self.starts = 0

    def look(self) -> None:
        """Replace those that ended."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < self._number:
            command = [sys.executable, *self._arguments]
            worker = Warm(command, cwd=ROOT, env=self._environment, stderr=subprocess.DEVNULL)
            self._workers.append(worker)
            self.starts += 1

    def end(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait()


@contextmanager
def supervised(url: str, arguments: tuple[str, ...], number: int) -> Iterator[Supervisor]:
    supervisor = Supervisor(url, arguments, number)
    try:
        yield supervisor
    finally:
        supervisor.end()


async def settled(sf: Standfast, ids: list[str], supervisor: Supervisor) -> list[JobView]:
    """Wait until every job is settled; give them."""
    while True:
        supervisor.look()
        jobs = [job for job in [await sf.status(each) for each in ids] if job is not None]
        if all(job.settled for job in jobs):
            return jobs
        await asyncio.sleep(0.1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("arguments", [COMMAND, IN_PROCESS], ids=["command", "in-process"])
async def test_poisoned_jobs_die_and_all_others_complete_with_their_attempts_unspent(url, arguments, workers):
    payloads = [{"do": "good"} for _ in range(GOOD)]
    for place, do in zip((150, 90, 30), LETHAL, strict=True):
        payloads.insert(place, {"do": do})
    async with Standfast(url) as sf:
        receipts = await sf.enqueue_many("work", payloads)
        with supervised(url, arguments, workers) as supervisor:
            jobs = await settled(sf, [str(receipt.id) for receipt in receipts], supervisor)
    found = Counter((job.payload["do"] == "good", job.state.value, job.attempts, job.reason) for job in jobs)
    assert found == {(True, "completed", 1, None): GOOD, (False, "dead", 3, "worker_lost"): len(LETHAL)}
    if arguments == COMMAND:
        assert supervisor.starts <= workers + len(LETHAL), "alone, a poisoned job kills a child, and no worker"
