"""Three worker processes and many producers on a few threads: the judge is a file that the product does not write."""

from __future__ import annotations

import asyncio

import pytest

from standfast import Standfast
from tests.waiting import ended
from tests.worker.processes import Log, children

THREADS = ("red", "green", "blue")
JOBS = 25
"""For each thread."""
ATTEMPTS = 2


@pytest.fixture
def log(tmp_path) -> Log:
    return Log(tmp_path / "log")


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


async def hammer(sf: Standfast, path: str, log: Log, coalesce: str) -> dict[str, list[str | None]]:
    """Let three processes work while all threads get their jobs; give each thread's job ids once all have ended."""
    rules = {"mail": {"coalesce": coalesce, "attempts": ATTEMPTS, "wait": 0.01}}
    with children(path, log, 3, rules=rules):
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
        what, name, _, pid = line.split()
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


async def test_every_job_runs_alone_in_its_thread_and_in_order(disk, path, log):
    """Capability 30, where every job is kept."""
    made = await hammer(disk, path, log, "never")
    ran, workers = judge(log)
    assert len(workers) > 1, "one process proves nothing"
    for thread in THREADS:
        assert ran[thread] == sorted(ran[thread]), "in order, repeats included"
        repeats = {number: ran[thread].count(number) for number in range(JOBS)}
        assert repeats == {number: ATTEMPTS if what_to_do(number) == "fail" else 1 for number in range(JOBS)}
        assert len(set(made[thread])) == JOBS


async def test_the_latest_of_each_thread_is_never_lost(disk, path, log):
    """Capabilities 11, 12 and 30: what is folded or superseded makes way for something newer, which runs."""
    made = await hammer(disk, path, log, "latest")
    ran, _ = judge(log)
    for thread, ids in made.items():
        assert ran[thread][-1] == JOBS - 1
        for job_id in set(ids):
            job = await disk.status(job_id)
            assert job is not None
            assert job.state in {"completed", "dead"} or job.superseded_by in ids
