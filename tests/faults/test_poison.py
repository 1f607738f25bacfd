"""A payload that kills its process ends dead by itself: what ran beside it completes, with its attempts unspent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from standfast import JobView, Standfast
from tests.on_disk import path, url
from tests.waiting import ended, job_of, seen
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
@pytest.mark.parametrize(
    ("arguments", "workers"),
    [
        pytest.param(COMMAND, 3, id="command-3"),
        pytest.param(IN_PROCESS, 1, id="in-process-1"),
        pytest.param(COMMAND, 1, id="command-1", marks=pytest.mark.long),
        pytest.param(IN_PROCESS, 3, id="in-process-3", marks=pytest.mark.long),
    ],
)
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


class Started(NamedTuple):
    """A job that a process began."""

    job: str
    pid: int


def started(place: Path) -> list[Started]:
    lines = (place / "started").read_text().splitlines() if (place / "started").exists() else []
    return [Started(line.split()[0], int(line.split()[1])) for line in lines]


def is_over(pid: int) -> bool:
    """Tell whether a process is gone, or only waits to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@asynccontextmanager
async def child_at_work(url: str, place: Path) -> AsyncIterator[tuple[Standfast, Warm, list[str], Started]]:
    """Kill a worker that holds two jobs; give another one, whose child runs the first of them alone."""
    command: dict[str, Any] = {
        "cwd": ROOT,
        "env": {**environment(), "STANDFAST_URL": url},
        "stderr": subprocess.DEVNULL,
    }
    workers = []
    try:
        async with Standfast(url) as sf:
            receipts = await sf.enqueue_many("work", [{"do": "wait", "place": str(place)} for _ in range(2)])
            workers.append(Warm([sys.executable, *COMMAND, "--grace", "0.1"], **command))
            await seen(lambda: len(started(place)) == 2, within=60)
            workers[0].kill()
            workers.append(Warm([sys.executable, *COMMAND, "--grace", "0.1"], **command))
            await seen(lambda: len(started(place)) == 3, within=60)
            child = started(place)[2]
            assert child.pid not in {worker.pid for worker in workers}
            yield sf, workers[1], [str(receipt.id) for receipt in receipts], child
    finally:
        (place / "go").touch()
        for worker in workers:
            worker.kill()
            worker.wait()


@pytest.mark.timeout(200)
async def test_a_worker_that_drains_has_its_child_give_the_suspect_back(url, tmp_path):
    async with child_at_work(url, tmp_path) as (sf, worker, ids, child):
        assert child.job == ids[0], "it kept its place in the line"
        worker.terminate()
        assert await asyncio.to_thread(worker.wait, 60) == 0
        assert is_over(child.pid)
        job = await job_of(sf, child.job)
        assert (job.state, job.attempts, job.deferrals) == ("queued", 0, 1)
        assert [line.reason_code for line in job.history] == ["worker_lost", "given_back"]
        assert "next it runs alone" in await sf.explain(child.job)


@pytest.mark.timeout(200)
async def test_a_child_whose_worker_is_killed_finishes_what_it_runs_and_no_more(url, tmp_path):
    async with child_at_work(url, tmp_path) as (sf, worker, ids, child):
        worker.kill()
        await asyncio.to_thread(worker.wait, 60)
        (tmp_path / "go").touch()
        done = await ended(sf, child.job, within=60)
        assert (done.state, done.attempts) == ("completed", 1)
        await seen(lambda: is_over(child.pid), within=60)
        assert (await job_of(sf, ids[1])).state == "queued"


@pytest.mark.timeout(200)
async def test_a_child_that_is_killed_was_alone_with_its_job_and_its_worker_goes_on(url, tmp_path):
    async with child_at_work(url, tmp_path) as (sf, worker, ids, child):
        os.kill(child.pid, signal.SIGKILL)
        await seen(lambda: len(started(tmp_path)) >= 4, within=60)
        job = await job_of(sf, child.job)
        assert job.attempts == 1 + (job.state == "running")
        (tmp_path / "go").touch()
        jobs = [await ended(sf, job_id, within=60) for job_id in ids]
        assert [(job.state.value, job.attempts) for job in jobs] == [("completed", 2), ("completed", 1)]
        assert worker.poll() is None


@pytest.mark.timeout(200)
async def test_a_job_that_its_child_runs_can_be_cancelled(url, tmp_path):
    async with child_at_work(url, tmp_path) as (sf, _worker, _ids, child):
        await sf.cancel(child.job)
        assert (await ended(sf, child.job, within=60)).state == "cancelled"
