"""Processes that work and processes that produce, on a few threads: the judge is a file the product does not write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest

from standfast import JobView, Standfast
from standfast.spine.payload import canonical, sha256
from tests.store.processes import Processes
from tests.waiting import ended, job_of, seen
from tests.worker.inside import live_workers
from tests.worker.processes import Log, children

THREADS = ("red", "green", "blue")
JOBS = 25
"""For each thread."""
ATTEMPTS = 2


def what_to_do(number: int) -> object:
    """Most take a moment, some nothing, some fail each time."""
    return "fail" if number % 8 == 3 else 0.004 if number % 2 else "nothing"


async def produce(sf: Standfast, thread: str) -> list[str | None]:
    """Enqueue one thread's jobs, in order, while others do the same with theirs."""
    ids = []
    for number in range(JOBS):
        payload = {"name": f"{thread}-{number}", "do": what_to_do(number)}
        ids.append((await sf.enqueue("mail", payload, thread_key=thread)).id)
    return ids


async def hammer(sf: Standfast, url: str, log: Log, coalesce: str) -> dict[str, list[str | None]]:
    """Let three processes work while all threads get their jobs; give each thread's job ids once all have ended."""
    rules = {"mail": {"coalesce": coalesce, "attempts": ATTEMPTS, "wait": 0.01}}
    with children(url, log, 3, rules=rules):
        while not log.lines():  # the rules are in force when the first job runs
            first = await sf.enqueue("mail", {"name": "first-0"})
            await ended(sf, first.id)
        made = dict(zip(THREADS, await asyncio.gather(*(produce(sf, thread) for thread in THREADS)), strict=True))
        for ids in made.values():
            for job_id in dict.fromkeys(ids):
                await ended(sf, job_id, within=30)
    return made


def judge(log: Log) -> tuple[dict[str, list[int]], set[int]]:
    """Walk the file: no thread is entered twice at once. Give each thread's runs in order, and who ran them."""
    inside: dict[str, str] = {}
    ran: dict[str, list[int]] = {thread: [] for thread in THREADS}
    workers = set()
    for line in log.path.read_text().splitlines():
        what, name, _, pid, _ = line.split()
        thread, number = name.split("-")
        if thread not in ran:
            continue
        if what == "start":
            assert thread not in inside, f"{name} began inside {inside[thread]}"
            ran[thread].append(int(number))
            workers.add(int(pid))
            if what_to_do(int(number)) != "fail":
                inside[thread] = name
        else:
            assert inside.pop(thread) == name
    assert not inside
    return ran, workers


async def test_every_job_runs_alone_in_its_thread_and_in_order(disk, url, log):
    """Capability 30, where every job is kept."""
    made = await hammer(disk, url, log, "never")
    ran, workers = judge(log)
    assert len(workers) > 1, "one process proves nothing"
    for thread in THREADS:
        assert ran[thread] == sorted(ran[thread]), "in order, repeats included"
        repeats = {number: ran[thread].count(number) for number in range(JOBS)}
        assert repeats == {number: ATTEMPTS if what_to_do(number) == "fail" else 1 for number in range(JOBS)}
        assert len(set(made[thread])) == JOBS


async def test_the_latest_of_each_thread_is_never_lost(disk, url, log):
    """Capabilities 11, 12 and 30: what is folded or superseded makes way for something newer, which runs."""
    made = await hammer(disk, url, log, "latest")
    ran, _ = judge(log)
    for thread, ids in made.items():
        assert ran[thread][-1] == JOBS - 1
        for job_id in set(ids):
            job = await disk.status(job_id)
            assert job is not None
            assert job.state in {"completed", "dead"} or job.superseded_by in ids


# --- producers in processes of their own


PRODUCERS = ("ann", "bob", "eve")
PAYLOADS = 15
"""From each producer: all of them together are fewer than a job remembers one by one."""


class Stored(NamedTuple):
    """A payload that was accepted, and its receipt."""

    name: str
    id: str
    outcome: str
    state: str


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.leave()


async def produced(sf: Standfast, url: str, log: Log, processes: Processes, coalesce: str) -> list[Stored]:
    """Let three processes fill one thread at once while two work; give the receipts when all has ended."""
    rules = {"gather": {"coalesce": coalesce, "attempts": 2, "wait": 0.01}}
    with children(url, log, 2, rules=rules):
        await seen(lambda: live_workers(sf, at_least=2))
        producers = [processes.ready("enqueue_in_thread", url, name, str(PAYLOADS)) for name in PRODUCERS]
        for producer in producers:
            producer.go()
        stored = [Stored(*each) for producer in producers for each in producer.hear()]
        for job_id in {each.id for each in stored}:
            await ended(sf, job_id, within=30)
    assert len(stored) == len(PRODUCERS) * PAYLOADS
    return stored


def runs(log: Log) -> list[tuple[str, ...]]:
    """Give what each run carried, in order; no run began before the one before it was over."""
    lines = [line.split()[:4] for line in log.path.read_text().splitlines()]
    for (what, names, attempt, pid), after in pairwise([*lines, ["start", "", "", ""]]):
        assert after[0] == "start" if what == "end" else after == ["end", names, attempt, pid]
    return [tuple(names.split(",")) for what, names, *_ in lines if what == "start"]


def hash_of(name: str) -> str:
    return sha256(canonical({"name": name}))


async def jobs_of(sf: Standfast, stored: list[Stored]) -> dict[str, JobView]:
    """Give every job that took one of these in, or was one; each has ended, in the way that is its queue's."""
    jobs = {job_id: await job_of(sf, job_id) for job_id in {each.id for each in stored}}
    assert {each.id for each in stored if each.outcome == "accepted"} == jobs.keys()
    folded = sum(job.coalesced["count"] for job in jobs.values() if job.coalesced)
    assert folded == sum(each.outcome == "coalesced" for each in stored)
    return jobs


async def test_of_what_three_producers_send_the_latest_is_never_lost(disk, url, log, processes):
    """Each payload ran, or was folded into a job that a newer one took over; what was superseded had run."""
    stored = await produced(disk, url, log, processes, "latest")
    jobs = await jobs_of(disk, stored)
    carried = {hash_of(name) for [name] in runs(log)}
    folded = [each["sha256"] for job in jobs.values() if job.coalesced for each in job.coalesced["last"]]
    assert len(folded) == len(set(folded))
    assert carried.isdisjoint(folded)
    assert carried.union(folded) == {hash_of(each.name) for each in stored}
    for job in jobs.values():
        while job.superseded_by is not None:
            job = jobs[job.superseded_by]  # noqa: PLW2901 - from each to the one that ran in its place
        assert job.state == "completed"


async def test_of_what_three_producers_send_everything_is_collected_once(disk, url, log, processes):
    stored = await produced(disk, url, log, processes, "collect")
    jobs = await jobs_of(disk, stored)
    carried = [name for names in dict.fromkeys(runs(log)) for name in names]
    assert sorted(carried) == sorted(each.name for each in stored)
    assert sorted(each["name"] for job in jobs.values() for each in job.payload) == sorted(carried)
    assert {job.state for job in jobs.values()} == {"completed"}
    assert_in_order(carried)


async def test_of_what_three_producers_send_everything_is_kept(disk, url, log, processes):
    stored = await produced(disk, url, log, processes, "never")
    jobs = await jobs_of(disk, stored)
    assert {each.outcome for each in stored} == {"accepted"}
    assert {job.state for job in jobs.values()} == {"completed"}
    carried = [name for [name] in dict.fromkeys(runs(log))]
    assert sorted(carried) == sorted(each.name for each in stored)
    assert_in_order(carried)


def assert_in_order(carried: list[str]) -> None:
    """Each producer's payloads ran in the order it sent them."""
    for producer in PRODUCERS:
        numbers = [int(name.split("-")[1]) for name in carried if name.startswith(producer)]
        assert numbers == sorted(numbers)
