"""Leaving: claim no more, let what runs end, give back what was cut, and be gone when told so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from standfast import ConfigurationError, Standfast, StoreUnavailable
from standfast.spine.claim import claim
from standfast.store.engine import Engine
from standfast.testing import drain
from standfast.wings.queues import scripts as queue_scripts
from standfast.worker.worker import Worker
from tests.store.suite import claim_one
from tests.waiting import failure_of, job_of, reached, seen
from tests.worker.inside import (
    beat_soon,
    beating,
    claim_task,
    held,
    idle,
    is_open,
    keep_first_end_waiting,
    live_workers,
    look_everywhere,
    start,
    store_of,
)


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
    assert (line.landed, line.possible_duplicate) == ("maybe", True), "it had been entered"
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


async def test_a_drain_says_which_plain_function_it_waits_for(disk, caplog):
    started, go = threading.Event(), threading.Event()

    def said() -> list[str]:
        return [line.getMessage() for line in caplog.records if "cannot be stopped" in line.getMessage()]

    @disk.handler("print")
    def paper(_job):
        started.set()
        go.wait(20)

    @disk.handler("mail")
    async def letter(_job):
        await asyncio.sleep(60)

    async with disk.worker(grace=0.05) as worker:
        receipt = await disk.enqueue("print")
        await reached(disk, (await disk.enqueue("mail")).id, "running")
        await seen(started.is_set)
        assert said() == []
        leaving = asyncio.create_task(worker.drain())
        await seen(said)
        go.set()
        await leaving
    [line] = said()
    assert line.startswith(f"job {receipt.id} of handler print still runs")
    assert "second signal" in line
    assert "may run again" in line
    assert (await job_of(disk, receipt.id)).state == "completed"


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


async def test_a_drain_whose_caller_gave_up_goes_on_and_the_next_one_waits_for_it(disk):
    running = Running()
    disk.handler("mail")(running)
    async with disk.worker() as worker:
        receipt = await disk.enqueue("mail")
        await seen(lambda: running.inside)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.drain(), 0.05)
        again = asyncio.create_task(worker.drain())
        done, _ = await asyncio.wait([again], timeout=0.05)
        assert not done, "or the loop is closed under a running job, and its heartbeat goes on for good"
        running.go.set()
        await again
    assert (await job_of(disk, receipt.id)).state == "completed"
    assert not beating(worker)
    assert await live_workers(disk) == []


def until_told(job: Any) -> str:
    """Run as a plain function that looks whether it should stop."""
    waited = threading.Event()
    for _ in range(1000):
        if job.cancelled:
            return "saw it"
        waited.wait(0.005)
    return "was not told"


async def test_a_loop_that_is_stopped_waits_for_plain_functions_and_writes_every_end(disk, url):
    """As `asyncio.run` does after a second Ctrl-C: every task is cancelled, the drain's too."""
    started: list[str] = []
    sf = Standfast(url)

    @sf.handler("print")
    def plain(job):
        started.append("print")
        return until_told(job)

    @sf.handler("mail")
    async def mail(_job):
        started.append("mail")
        await asyncio.Event().wait()

    async def program() -> tuple[Worker, asyncio.Task[None]]:
        worker = await sf.worker(grace=60).__aenter__()
        await seen(lambda: len(started) == 2)
        leaving = asyncio.create_task(worker.drain())
        await asyncio.sleep(0)
        return worker, leaving

    printed, mailed = await disk.enqueue("print"), await disk.enqueue("mail")
    worker, _ = await asyncio.to_thread(asyncio.run, program())
    await sf.close()
    job = await job_of(disk, printed.id)
    assert (job.state, job.result) == ("completed", "saw it")
    job = await job_of(disk, mailed.id)
    assert (job.view, job.history[-1].landed) == ("retry_pending", "maybe")
    assert not beating(worker)
    assert await live_workers(disk) == []


async def test_a_loop_that_is_stopped_before_an_attempt_began_gives_it_back(disk, url):
    started = threading.Event()
    sf = Standfast(url)
    sf.handler("mail")(lambda _job: None)

    @sf.handler("print")
    def plain(job):
        started.set()
        return until_told(job)

    async def program() -> asyncio.Task[None]:
        worker = await sf.worker(["print"], grace=60).__aenter__()
        await seen(started.is_set)
        claim = await claim_one(store_of(sf), worker=worker.id)
        leaving = asyncio.create_task(worker.drain())
        await asyncio.wait([leaving], timeout=0.05)
        # This comes about in the loop's last turn, and what it starts would run in the next one.
        asyncio.get_running_loop().call_soon(start, worker, claim)
        return leaving

    await disk.enqueue("print")
    receipt = await disk.enqueue("mail")
    await asyncio.to_thread(asyncio.run, program())
    await sf.close()
    job = await job_of(disk, receipt.id)
    assert (job.state, job.attempts, job.deferrals) == ("queued", 0, 1)


class SlowClaim:
    """Keeps the first claim from its transaction until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.under_way, self.go = threading.Event(), threading.Event()
        transact = Engine._transact  # noqa: SLF001 - there is no other place that only a claim passes

        def wait(engine: Engine[Any], pending: list[Any], **how: Any) -> Any:
            if any(each.script is claim for each in pending):
                self.under_way.set()
                assert self.go.wait(10)
            return transact(engine, pending, **how)

        monkeypatch.setattr(Engine, "_transact", wait)

    async def cancel(self, tasks: Iterable[asyncio.Task[Any] | None]) -> None:
        """Cancel tasks while the claim is under way, and then let it go."""
        for task in tasks:
            assert task is not None
            assert task.cancel()
        await asyncio.sleep(0)
        self.go.set()


def all_others() -> set[asyncio.Task[Any]]:
    """Give what whoever stops a loop cancels: all its tasks, the one that claims too."""
    return asyncio.all_tasks() - {cast("asyncio.Task[Any]", asyncio.current_task())}


@pytest.mark.parametrize("drains", [True, False], ids=["drained", "left alone"])
async def test_a_loop_that_is_stopped_while_a_claim_is_under_way_gives_back_what_it_brings(
    disk, url, monkeypatch, drains
):
    sf, ran = Standfast(url), list[int]()
    sf.handler("mail")(lambda job: ran.append(job.attempt))

    async def program() -> None:
        worker = await sf.worker(grace=60).__aenter__()
        await seen(slow.under_way.is_set)
        await slow.cancel(all_others())
        if drains:
            await worker.drain()

    receipt = await disk.enqueue("mail")
    slow = SlowClaim(monkeypatch)
    await asyncio.to_thread(asyncio.run, program())
    job = await reached(disk, receipt.id, "queued")
    assert (job.attempts, job.deferrals, job.worker, ran) == (0, 1, None, []), "or it is running in no hands"
    await sf.close()


async def test_a_worker_whose_claim_was_cancelled_gives_back_what_it_brought_and_claims_again(disk, monkeypatch):
    ran: list[int] = []
    disk.handler("mail")(lambda job: ran.append(job.attempt))
    first = await disk.enqueue("mail")
    slow = SlowClaim(monkeypatch)
    async with disk.worker() as worker:
        await seen(slow.under_way.is_set)
        claiming = claim_task(worker)
        await slow.cancel([claiming])
        job = await reached(disk, first.id, "completed")
        assert (job.attempts, job.deferrals) == (1, 1), "the cancelled claim counts as no attempt"
        second = await disk.enqueue("mail")
        assert (await reached(disk, second.id, "completed")).deferrals == 0
    assert claiming is not None
    assert claiming.cancelled(), "whoever cancels a task is told so"
    assert ran == [1, 1]


async def test_a_worker_whose_claim_was_cancelled_before_its_first_step_claims_again(disk):
    disk.handler("mail")(lambda _job: None)
    async with disk.worker() as worker:
        await seen(lambda: idle(worker))
        look_everywhere(worker)
        claiming = claim_task(worker)
        assert claiming is not None
        assert claiming.cancel()
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "completed")
        assert claiming.cancelled()


async def test_a_run_of_what_is_due_that_is_cancelled_gives_back_what_its_claim_brings(disk, monkeypatch):
    ran: list[int] = []
    disk.handler("mail")(lambda job: ran.append(job.attempt))
    receipt = await disk.enqueue("mail")
    slow = SlowClaim(monkeypatch)
    running = asyncio.create_task(drain(disk))
    await seen(slow.under_way.is_set)
    await slow.cancel([running])
    with pytest.raises(asyncio.CancelledError):
        await running
    job = await job_of(disk, receipt.id)
    assert (job.state, job.attempts, job.deferrals, ran) == ("queued", 0, 1, [])
    assert await drain(disk) == {"mail": 1}


async def test_a_loop_that_is_stopped_while_an_end_is_written_writes_it(disk, url):
    sf = Standfast(url)
    sf.handler("mail")(lambda _job: "sent")
    writing = keep_first_end_waiting(sf)

    async def program() -> asyncio.Task[None]:
        worker = await sf.worker(grace=60).__aenter__()
        await seen(writing.is_set)
        leaving = asyncio.create_task(worker.drain())
        await asyncio.wait([leaving], timeout=0.05)
        return leaving

    receipt = await disk.enqueue("mail")
    await asyncio.to_thread(asyncio.run, program())
    await sf.close()
    assert (await job_of(disk, receipt.id)).result == "sent"


async def test_a_heartbeat_ends_with_its_loop_and_opens_no_closed_store(url):
    sf = Standfast(url)
    sf.handler("mail")(lambda _job: None)

    async def program() -> Worker:
        worker = await sf.worker().__aenter__()
        await seen(lambda: idle(worker))
        await sf.close()
        return worker

    worker = await asyncio.to_thread(asyncio.run, program())
    await seen(lambda: stopped(worker))
    assert not is_open(sf)


def stopped(worker: Worker) -> bool:
    """Wake the heartbeat, and tell whether it is over."""
    beat_soon(worker)
    return not beating(worker)


async def test_a_plain_function_that_outlives_its_loop_keeps_its_lease(disk, url):
    """Its end has nobody left to write it, but it must not run a second time beside itself."""
    started, go = threading.Event(), threading.Event()
    sf = Standfast(url)

    @sf.handler("print")
    def plain(_job):
        started.set()
        go.wait(30)

    async def program() -> Worker:
        worker = await sf.worker().__aenter__()
        await seen(started.is_set)
        return worker

    def stopped_hard() -> Worker:
        """Run and close without cancelling anything, as an interrupt in the wrong moment does."""
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # it would tell of every task left behind
        worker = loop.run_until_complete(program())
        loop.close()
        return worker

    async def beat_after(moment: float) -> bool:
        [row] = await live_workers(disk)
        return row.beat_at > moment

    await disk.enqueue("print")
    worker = await asyncio.to_thread(stopped_hard)
    [row] = await live_workers(disk)
    beat_soon(worker)
    await seen(lambda: beat_after(row.beat_at))
    go.set()
    await seen(lambda: stopped(worker))
    await sf.close()


async def test_a_worker_that_cannot_start_leaves_nothing_behind(disk, monkeypatch):
    def names() -> NoReturn:
        raise StoreUnavailable("away", definite=True)

    await disk.open()
    monkeypatch.setattr(queue_scripts, "queue_names", names)
    worker = disk.worker()
    with pytest.raises(StoreUnavailable):
        await worker.__aenter__()
    assert not beating(worker)
    assert await live_workers(disk) == []


def in_the_way(path: str) -> None:
    Path(path).touch()


async def test_a_worker_works_although_nobody_can_wake_it(path):
    """Where hints are waited for, something else lies in the way."""
    in_the_way(f"{path}-wake")
    async with Standfast(path) as sf:
        sf.handler("mail")(lambda _job: "sent")
        async with sf.worker():
            receipt = await sf.enqueue("mail")
            assert (await reached(sf, receipt.id, "completed")).result == "sent"


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


async def test_closing_drains_a_worker_that_nobody_drained(disk):
    """It would go on without a store."""
    disk.handler("mail")(lambda _job: "sent")
    worker = await disk.worker().__aenter__()
    receipt = await disk.enqueue("mail")
    await reached(disk, receipt.id, "completed")
    assert len(await live_workers(disk)) == 1
    await disk.close()
    assert worker.working_in is None
    assert not is_open(disk)
    await disk.open()
    assert await live_workers(disk) == []


async def test_closing_is_refused_while_a_worker_works_in_another_loop(disk):
    disk.handler("mail")(lambda _job: "sent")
    works, ends = threading.Event(), threading.Event()

    async def work() -> None:
        async with disk.worker():
            works.set()
            await asyncio.to_thread(ends.wait)

    elsewhere = threading.Thread(target=asyncio.run, args=(work(),))
    elsewhere.start()
    await asyncio.to_thread(works.wait)
    try:
        with pytest.raises(ConfigurationError, match="works in another event loop"):
            await disk.close()
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "completed")
    finally:
        ends.set()
        await asyncio.to_thread(elsewhere.join)
    await disk.close()


async def test_an_attempt_that_broke_off_in_our_own_code_is_not_waited_for(sf, monkeypatch, caplog):
    settled = asyncio.Event()

    def broken(*_: Any) -> None:
        settled.set()
        raise RuntimeError("a mistake of ours")

    sf.handler("mail")(lambda _job: None)
    monkeypatch.setattr("standfast.worker.executor.settle", broken)
    job = (await sf.enqueue("mail")).id
    async with asyncio.timeout(10), sf.worker():
        await settled.wait()
    assert (await job_of(sf, job)).state == "running"
    assert f"the attempt of job {job} broke off; it is left to its lease" in caplog.text
