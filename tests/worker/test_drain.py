"""Leaving: claim no more, let what runs end, give back what was cut, and be gone when told so."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.waiting import failure_of, job_of, reached, seen
from tests.worker.inside import held, live_workers


class Running:
    """An async handler that waits until it is let go."""

    def __init__(self) -> None:
        self.inside = 0
        self.go = asyncio.Event()

    async def __call__(self, _job: Any) -> str:
        self.inside += 1
        await self.go.wait()
        return "done"


async def test_what_runs_may_finish_and_nothing_new_is_claimed(disk):
    running = Running()
    disk.handler("mail")(running)
    async with disk.worker(concurrency=1) as worker:
        first, second = await disk.enqueue_many("mail", [1, 2])
        await seen(lambda: running.inside == 1)
        leaving = asyncio.create_task(worker.drain())
        third = await disk.enqueue("mail", 3)
        running.go.set()
        await leaving
        assert (await job_of(disk, first.id)).result == "done"
        for receipt in (second, third):
            job = await job_of(disk, receipt.id)
            assert (job.state, job.attempts, job.deferrals) == ("queued", 0, 0)
    assert running.inside == 1
    assert held(worker) == {}


async def test_a_cut_replay_attempt_is_given_back(disk):
    cut: list[bool] = []

    @disk.handler("mail")
    async def handler(job):
        try:
            await asyncio.sleep(60)
        finally:
            cut.append(job.cancelled)

    async with disk.worker(grace=0.05) as worker:
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "running")
    job = await job_of(disk, receipt.id)
    assert (job.state, job.view, job.attempts, job.deferrals, job.worker) == ("queued", "queued", 0, 1, None)
    [line] = job.history
    assert (line.attempt, line.reason_code, line.delay, line.cls) == (1, "given_back", 0, None)
    assert line.worker == worker.id
    assert cut == [True]


async def test_a_cut_manual_attempt_may_have_landed(disk):
    @disk.handler("pay", replay="manual")
    async def handler(_job):
        await asyncio.sleep(60)

    async with disk.worker(grace=0.05):
        receipt = await disk.enqueue("pay")
        await reached(disk, receipt.id, "running")
    job = await job_of(disk, receipt.id)
    assert (job.state, job.reason, job.attempts) == ("dead", "unknown_commit_state", 1)
    assert failure_of(job).landed == "maybe"


async def test_a_handler_that_ends_well_when_cut_has_completed(disk):
    @disk.handler("mail")
    async def handler(_job):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "saved in time"

    async with disk.worker(grace=0.05):
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "running")
    assert (await job_of(disk, receipt.id)).result == "saved in time"


async def test_a_plain_function_is_waited_for_and_told(disk):
    started = threading.Event()

    @disk.handler("print")
    def handler(job):
        started.set()
        return "saw it" if cancelled(job) else "was not told"

    def cancelled(job: Any) -> bool:
        waited = threading.Event()
        for _ in range(1000):
            if job.cancelled:
                return True
            waited.wait(0.005)
        return False

    async with disk.worker(grace=0.05):
        receipt = await disk.enqueue("print")
        await seen(started.is_set)
    job = await job_of(disk, receipt.id)
    assert (job.state, job.result) == ("completed", "saw it")


async def test_draining_again_waits_for_the_same_end(disk):
    running = Running()
    disk.handler("mail")(running)
    async with disk.worker() as worker:
        receipt = await disk.enqueue("mail")
        await seen(lambda: running.inside)
        leaving = [asyncio.create_task(worker.drain()) for _ in range(3)]
        done, _ = await asyncio.wait(leaving, timeout=0.05)
        assert not done, "a drain that returns early lets its caller close the store under a running job"
        running.go.set()
        await asyncio.gather(*leaving)
        assert (await job_of(disk, receipt.id)).state == "completed"
    await worker.drain()
    assert await live_workers(disk) == []


async def test_an_empty_worker_starts_and_leaves(disk):
    async with disk.worker() as worker:
        await worker.drain()
    assert await live_workers(disk) == []


async def test_a_worker_leaves_when_its_body_fails(disk):
    disk.handler("mail")(lambda _job: None)
    with pytest.raises(LookupError):
        async with disk.worker():
            raise LookupError
    assert await live_workers(disk) == []


async def test_a_drained_job_runs_in_the_next_worker(disk):
    tries: list[int] = []

    @disk.handler("mail")
    async def handler(job):
        tries.append(job.attempt)
        if len(tries) == 1:
            await asyncio.sleep(60)

    async with disk.worker(grace=0):
        receipt = await disk.enqueue("mail")
        await seen(lambda: tries)
    async with disk.worker():
        job = await reached(disk, receipt.id, "completed")
    assert (job.attempts, tries) == (1, [1, 1])
