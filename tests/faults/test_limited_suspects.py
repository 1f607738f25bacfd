"""A worker dies while its queue is at its limit: its jobs have the next places, alone, and everything else goes on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from standfast import Standfast
from tests.on_disk import path, url
from tests.waiting import ended, job_of, reached, seen
from tests.warm import Warm
from tests.worker.processes import ROOT, environment

__all__ = ["path", "url"]

COMMAND = ("-m", "standfast", "worker", "tests.faults.limited:sf", "--concurrency", "8", "--grace", "0.1")
WITHIN = 60.0
pytestmark = pytest.mark.timeout(240)


class Started(NamedTuple):
    """A job that a process began."""

    name: str
    pid: int


class Place:
    """Where the jobs say that they began, and are told that they may end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def started(self) -> list[Started]:
        file = self.path / "started"
        cut = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [Started(name, int(pid)) for name, pid in cut]

    def names(self) -> list[str]:
        return [each.name for each in self.started()]

    async def began(self, number: int) -> list[Started]:
        """Wait until so many jobs have begun."""
        await seen(lambda: len(self.started()) >= number, within=WITHIN)
        return self.started()

    def end(self, name: str) -> None:
        (self.path / f"end {name}").touch()

    def log(self) -> str:
        return (self.path / "log").read_text()


class Workers:
    """Starts worker processes."""

    def __init__(self, url: str, place: Place, by: str) -> None:
        self._environment = {
            **environment(),
            "STANDFAST_URL": url,
            "LIMITED_PLACE": str(place.path),
            "LIMITED_BY": by,
        }
        self._place = place
        self.started: list[Warm] = []

    def start(self) -> Warm:
        with (self._place.path / "log").open("ab") as log:
            worker = Warm([sys.executable, *COMMAND], cwd=ROOT, env=self._environment, stdout=log, stderr=log)
        self.started.append(worker)
        return worker


@contextmanager
def workers(url: str, place: Place, by: str) -> Iterator[Workers]:
    found = Workers(url, place, by)
    try:
        yield found
    finally:
        place.end("all")
        for worker in found.started:
            worker.kill()
            worker.wait()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def enqueued(sf: Standfast, queue: str, *names: str) -> list[str]:
    receipts = await sf.enqueue_many(queue, [{"name": name} for name in names])
    return [str(receipt.id) for receipt in receipts]


async def suspects_behind(
    sf: Standfast, place: Place, at_work: Workers, *, fresh: int
) -> tuple[Warm, list[str], list[str]]:
    """Kill a worker that holds two jobs, with fresh ones waiting; give the next worker, and the ids of both kinds."""
    lost = await enqueued(sf, "api", "lost0", "lost1")
    first = at_work.start()
    await place.began(2)
    others = await enqueued(sf, "api", *(f"fresh{n}" for n in range(fresh)))
    first.kill()
    first.wait()
    return at_work.start(), lost, others


def children_of(worker: Warm) -> list[int]:
    tasks = Path(f"/proc/{worker.pid}/task").glob("*/children")
    return [int(pid) for file in tasks for pid in file.read_text().split()]


async def test_jobs_whose_worker_died_have_the_next_places_of_a_full_queue_and_other_queues_go_on(url, place):
    """Fresh jobs hold all places while the process that runs jobs alone starts, and keep them for long."""
    async with Standfast(url) as sf:
        with workers(url, place, "concurrency") as at_work:
            worker, lost, fresh = await suspects_behind(sf, place, at_work, fresh=6)
            began = await place.began(4)
            assert [each.name for each in began[2:]] == ["fresh0", "fresh1"]
            await seen(lambda: waits_in_line(sf, lost[0]), within=WITHIN)
            assert (await job_of(sf, lost[1])).deferrals == 0, "one at a time: no place may wait for a process"
            place.end("fresh0")
            began = await place.began(5)
            assert began[4].name == "lost0"
            assert began[4].pid != worker.pid
            [other] = await enqueued(sf, "other", "other0")
            assert (await ended(sf, other, within=WITHIN)).state == "completed"
            assert place.started()[5] == Started("other0", worker.pid), "while a suspect runs, its worker goes on"
            place.end("all")
            jobs = [await ended(sf, job_id, within=WITHIN) for job_id in (*lost, *fresh)]
    assert {(job.state.value, job.attempts) for job in jobs} == {("completed", 1)}
    assert "Could not start a separate process" not in place.log()


async def waits_in_line(sf: Standfast, job_id: str) -> bool:
    return (await job_of(sf, job_id)).deferrals == 1


async def has_its_turn(sf: Standfast, job_id: str) -> bool:
    """Whether a job runs, or is the next of its queue."""
    job = await job_of(sf, job_id)
    return job.state == "running" or job.deferrals == 1


async def test_jobs_whose_worker_died_have_the_next_tokens_of_a_rate_and_other_queues_go_on(url, place):
    async with Standfast(url) as sf:
        with workers(url, place, "rate") as at_work:
            place.end("lost1")
            for n in range(400):
                place.end(f"fresh{n}")
            await enqueued(sf, "other", "other0")
            lost = await enqueued(sf, "api", "lost0")
            lost += await enqueued(sf, "api", "long0")
            first = at_work.start()
            await seen(lambda: {"lost0", "long0"} <= {*place.names()}, within=WITHIN)
            await enqueued(sf, "api", *(f"fresh{n}" for n in range(400)))
            first.kill()
            first.wait()
            worker = at_work.start()
            await seen(lambda: place.names().count("lost0") == 2, within=WITHIN)
            assert [each.pid != worker.pid for each in place.started() if each.name == "lost0"] == [True, True]
            before = sum(name.startswith("fresh") for name in place.names())
            [other] = await enqueued(sf, "other", "other1")
            assert (await ended(sf, other, within=WITHIN)).state == "completed"
            assert place.started()[[*place.names()].index("other1")].pid == worker.pid
            place.end("lost0")
            await seen(lambda: place.names().count("long0") == 2, within=WITHIN)
            after = sum(name.startswith("fresh") for name in place.names())
    assert after - before <= 20, "not behind the backlog"
    assert "Could not start a separate process" not in place.log()


async def test_a_place_is_not_lost_with_the_process_that_waited_for_it(url, place):
    """Its suspect keeps its place in the line, and the next process runs it."""
    async with Standfast(url) as sf:
        with workers(url, place, "concurrency") as at_work:
            worker, lost, _fresh = await suspects_behind(sf, place, at_work, fresh=6)
            await place.began(4)
            await seen(lambda: waits_in_line(sf, lost[0]), within=WITHIN)
            for pid in children_of(worker):
                os.kill(pid, signal.SIGKILL)
            place.end("fresh0")
            began = await place.began(5)
            assert began[4].name == "lost0"
            assert began[4].pid != worker.pid
            place.end("lost0")
            await seen(lambda: has_its_turn(sf, lost[1]), within=WITHIN)
            place.end("fresh1")
            await seen(lambda: "lost1" in place.names()[2:], within=WITHIN)
            assert sum(name.startswith("fresh") for name in place.names()) <= 3
            place.end("all")
            assert (await ended(sf, lost[1], within=WITHIN)).state == "completed"
    assert "Could not start a separate process" not in place.log()


async def test_a_job_whose_worker_died_waits_for_a_place_beside_other_suspects_of_other_workers(url, place):
    """Two workers died and two follow: none of them takes the other's processes for broken ones."""
    async with Standfast(url) as sf:
        with workers(url, place, "concurrency") as at_work:
            _, lost, fresh = await suspects_behind(sf, place, at_work, fresh=6)
            second = at_work.start()
            await place.began(4)
            await seen(lambda: waits_in_line(sf, lost[0]), within=WITHIN)
            place.end("all")
            jobs = [await ended(sf, job_id, within=WITHIN) for job_id in (*lost, *fresh)]
            await reached(sf, lost[0], "completed")
            assert second.poll() is None
    assert {(job.state.value, job.attempts) for job in jobs} == {("completed", 1)}
    assert "this worker" not in place.log()
