"""An attempt past its time: an async handler is cut, a plain function keeps its slot until it returns."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import Any

import pytest

from standfast import fixed, no_backoff
from tests.waiting import ended, failure_of, job_of, reached, seen, stamp
from tests.worker.inside import fire_timer_early, held, watches_deadlines

SHORT = 0.15


async def test_an_async_handler_is_cut_and_may_have_landed(disk):
    cut: list[bool] = []
    disk.queue("mail", attempts=2, backoff=no_backoff(), timeout=SHORT)

    @disk.handler("mail")
    async def handler(job):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.append(job.cancelled)
            raise

    async with disk.worker():
        job = await ended(disk, (await disk.enqueue("mail")).id)
    assert cut == [True, True]
    assert (job.state, job.reason, failure_of(job).landed) == ("dead", "max_attempts", "maybe")
    lines = [(line.cls, line.landed, line.reason_code, line.possible_duplicate) for line in job.history]
    assert lines == [("transient", "maybe", "timeout", True), ("transient", "maybe", "timeout", False)]


async def test_the_handlers_own_timeout_wins_over_the_queues(disk):
    disk.queue("mail", timeout=60, attempts=1)

    @disk.handler("mail", timeout=SHORT)
    async def handler(_job):
        await asyncio.sleep(60)

    async with disk.worker():
        assert (await ended(disk, (await disk.enqueue("mail")).id)).history[0].landed == "maybe"


async def test_a_manual_handler_past_its_time_dies_as_unknown(disk):
    runs: list[int] = []
    disk.queue("pay", timeout=SHORT, backoff=no_backoff())

    @disk.handler("pay", replay="manual")
    async def handler(job):
        runs.append(job.attempt)
        await asyncio.sleep(60)

    async with disk.worker():
        job = await ended(disk, (await disk.enqueue("pay")).id)
    assert (job.state, job.reason, failure_of(job).landed, runs) == ("dead", "unknown_commit_state", "maybe", [1])


@pytest.mark.parametrize("result", [{"sent": True}, None])
async def test_a_handler_that_swallows_its_cancellation_ends_once(disk, result):
    runs: list[int] = []
    disk.queue("mail", timeout=SHORT, backoff=no_backoff())

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.attempt)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(SHORT)
        return result

    async with disk.worker() as worker:
        job = await ended(disk, (await disk.enqueue("mail")).id)
        assert held(worker) == {}
    assert (job.state, job.result, job.attempts, job.history, runs) == ("completed", result, 1, [], [1])


async def test_each_of_many_deadlines_is_kept(disk):
    """One timer watches them all: a long one first, then shorter ones, then some that end in time."""
    for name, timeout in (("long", 0.5), ("short", 0.1), ("middle", 0.3), ("never", 30)):
        disk.queue(name, timeout=timeout, attempts=1)

        @disk.handler(name)
        async def handler(job):
            await asyncio.sleep(0.02 if job.queue == "never" else 60)

    async with disk.worker():
        receipts = [await disk.enqueue(name) for name in ("long", "short", "middle", "never") for _ in range(3)]
        jobs = [await ended(disk, receipt.id) for receipt in receipts]
    assert [job.state for job in jobs] == ["dead"] * 9 + ["completed"] * 3
    took = {job.queue: stamp(job.finished_at) - stamp(job.claimed_at) for job in jobs}
    assert took["long"] >= 0.5
    assert took["short"] >= 0.1
    assert took["middle"] >= 0.3
    assert took["short"] < took["middle"] < took["long"]


async def test_a_timer_that_fires_early_is_set_again(disk):
    """Event loops with timers of whole milliseconds do that."""
    disk.queue("mail", timeout=SHORT, attempts=1)

    @disk.handler("mail")
    async def handler(_job):
        await asyncio.sleep(60)

    async with disk.worker() as worker:
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "running")
        fire_timer_early(worker)
        assert (await job_of(disk, receipt.id)).state == "running"
        assert (await ended(disk, receipt.id)).state == "dead"


class Slow:
    """A plain function that runs until it is let go, and tells how many of it run at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.runs = 0
        self.job: Any = None

    def __call__(self, job: Any) -> str:
        self.runs += 1
        self.job = job
        assert self.go.wait(30)
        return "late but done"


async def test_a_plain_function_past_its_time_keeps_its_slot_and_its_late_success_counts(disk):
    slow = Slow()
    disk.queue("print", timeout=SHORT, lease=0.3, backoff=fixed(0.01))
    disk.handler("print")(slow)
    async with disk.worker(concurrency=1):
        receipt = await disk.enqueue("print", 1)
        behind = await disk.enqueue("print", 2)
        await seen(lambda: slow.job is not None and slow.job.cancelled)

        async def overdue() -> bool:
            return "print: 1 handler past its timeout" in (await disk.health())["issues"]

        await seen(overdue)
        waited_until = time.monotonic() + 0.9  # three leases: neither a sweeper nor a claim takes it away meanwhile
        await seen(lambda: time.monotonic() > waited_until)
        job = await job_of(disk, receipt.id)
        assert (job.state, job.attempts, slow.runs) == ("running", 1, 1)
        assert [line.reason_code for line in job.history] == ["overdue"]  # while it runs, not only once it returned
        said = await disk.explain(receipt.id)
        assert re.search(
            r"attempt 1 of 5\. Its time has been over for at least .+; no repeat starts beside it\.$", said
        )
        assert (await job_of(disk, behind.id)).state == "queued"
        slow.go.set()
        job = await ended(disk, receipt.id)
        assert (job.state, job.result, job.attempts, len(job.history)) == ("completed", "late but done", 1, 1)
        await ended(disk, behind.id)
    assert slow.runs == 2
    assert (await disk.health())["issues"] == []


async def test_a_plain_function_that_fails_after_its_time_is_judged_by_what_it_says(disk):
    disk.queue("print", timeout=0.05, attempts=1)

    @disk.handler("print")
    def handler(job):
        while not job.cancelled:
            time.sleep(0.005)
        raise ConnectionRefusedError("the printer is off")

    async with disk.worker():
        job = await ended(disk, (await disk.enqueue("print")).id)
    assert (job.state, failure_of(job).landed) == ("dead", "no")
    assert failure_of(job).message.startswith("the printer is off (at ")


async def test_an_async_function_behind_a_plain_one_is_cut_too(disk):
    disk.queue("mail", timeout=SHORT, attempts=1)

    async def slowly() -> None:
        await asyncio.sleep(60)

    disk.handler("mail")(lambda _job: slowly())
    async with disk.worker():
        job = await ended(disk, (await disk.enqueue("mail")).id)
    assert (job.state, failure_of(job).landed, failure_of(job).message) == (
        "dead",
        "maybe",
        "the attempt took longer than its timeout",
    )


async def test_no_timeout_must_be_written_and_is_kept(disk):
    disk.queue("mail", timeout=None)

    @disk.handler("mail")
    async def handler(_job):
        await asyncio.sleep(0.05)

    async with disk.worker() as worker:
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "running")
        assert not watches_deadlines(worker)
        await ended(disk, receipt.id)


async def test_a_plain_function_sees_that_it_is_cancelled_and_can_stop(disk):
    """By a person or by its timeout alike."""
    entered = threading.Event()

    @disk.handler("print", timeout=60)
    def handler(job):
        entered.set()
        while not job.cancelled:
            time.sleep(0.01)
        return "stopped"

    @disk.handler("late", timeout=SHORT)
    def late(job):
        while not job.cancelled:
            time.sleep(0.01)
        return "stopped"

    async with disk.worker():
        receipt = await disk.enqueue("print")
        await seen(entered.is_set)
        await disk.cancel(receipt.id)
        assert (await ended(disk, receipt.id)).result == "stopped"
        assert (await ended(disk, (await disk.enqueue("late")).id)).result == "stopped"


async def test_an_async_handler_that_goes_on_past_its_time_is_in_its_history_while_it_runs(disk, monkeypatch):
    monkeypatch.setattr("standfast.worker.executor.GOES_ON", 0.05)
    go = asyncio.Event()

    @disk.handler("mail", timeout=SHORT)
    async def handler(job):
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                assert job.cancelled

    async with disk.worker():
        receipt = await disk.enqueue("mail")

        async def noted() -> bool:
            job = await job_of(disk, receipt.id)
            return (job.state, [line.reason_code for line in job.history]) == ("running", ["overdue"])

        try:
            await seen(noted)
        finally:
            go.set()  # or a test that fails never ends
        assert (await ended(disk, receipt.id)).state == "completed"
