"""Leases: kept by heartbeats on a thread of their own, lost to whoever took the job over, never run twice beside."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from standfast import Standfast, StoreUnavailable, no_backoff
from standfast.errors import WrongAddress
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, QueueDemand
from standfast.store.postgres.two_writers import ClaimWriter
from standfast.worker import worker as worker_module
from standfast.worker.upkeep import Beat, HeldJob
from tests.waiting import ended, job_of, reached, seen
from tests.worker.inside import (
    claim_through,
    compare,
    fail_next_beat,
    failed_beats,
    fenced,
    hand_in_to,
    held,
    idle,
    listen_to_beats,
    listen_to_failed_beats,
    live_callers,
    store_of,
)
from tests.worker.outage import Outage, refusing, written_outside

TAKE_OVER = (
    "UPDATE job SET token = token + 1, worker = 'another', lease = 60 WHERE n = (SELECT n FROM body WHERE id = '{}')"
)


def take_over(url: str, job_id: str | None) -> None:
    """Do what a sweeper and another worker would: give the job to somebody else under a new token."""
    written_outside(url, TAKE_OVER.format(job_id))


async def test_what_was_claimed_beside_a_heartbeat_is_not_taken_for_lost(used_postgres_url, monkeypatch):
    """The claim begins first and is committed last, so the heartbeat does not see it; its answer is heard first."""
    monkeypatch.setattr(worker_module, "POLL_EVERY", 3600.0)
    claiming, beaten, entered, may_end = (threading.Event() for _ in range(4))
    commit = ClaimWriter._commit  # noqa: SLF001 - no other place is between the claim and its end

    def late(writer: ClaimWriter, connection: Any) -> None:
        claiming.set()
        assert beaten.wait(10)
        commit(writer, connection)

    def heard_late(report: Callable[[Beat], None], beat: Beat) -> None:
        beaten.set()
        assert entered.wait(10)
        report(beat)

    async with Standfast(used_postgres_url) as sf:

        @sf.handler("mail")
        async def handler(_job):
            entered.set()
            await asyncio.to_thread(may_end.wait, 10)

        async with sf.worker() as worker:
            await seen(lambda: idle(worker))
            monkeypatch.setattr(ClaimWriter, "_commit", late)
            receipt = await sf.enqueue("mail", delay=0.2)  # else it would be claimed by the transaction that brings it
            await seen(claiming.is_set)
            beat = worker._heartbeat  # noqa: SLF001
            beat._report = partial(heard_late, beat._report)  # noqa: SLF001
            judged = asyncio.Event()
            listen_to_beats(worker, lambda _beat: judged.set())
            await asyncio.to_thread(beat.beat)
            await judged.wait()
            may_end.set()
            job = await ended(sf, receipt.id)
    assert (job.state, job.attempts, job.history) == ("completed", 1, [])


async def test_a_worker_that_lost_a_job_stops_it_and_its_end_lands_nowhere(disk, url):
    cut = asyncio.Event()
    disk.queue("mail", lease=0.3)

    @disk.handler("mail")
    async def handler(job):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert job.cancelled
            cut.set()
        return "too late"

    worker = disk.worker()
    async with worker:
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "running")
        await asyncio.to_thread(take_over, url, receipt.id)
        await asyncio.wait_for(cut.wait(), 10)
        await seen(lambda: fenced(worker) == 1)
        job = await job_of(disk, receipt.id)
        assert (job.state, job.worker, job.result, job.history) == ("running", "another", None, [])
        assert held(worker) == {}


async def test_a_plain_function_that_lost_its_job_can_see_it(disk, url):
    disk.queue("mail", lease=0.3)

    @disk.handler("mail")
    def handler(job):
        while not job.cancelled:
            time.sleep(0.005)
        return "too late"

    worker = disk.worker()
    async with worker:
        receipt = await disk.enqueue("mail")
        await reached(disk, receipt.id, "running")
        await asyncio.to_thread(take_over, url, receipt.id)
        await seen(lambda: fenced(worker) == 1)
        assert (await job_of(disk, receipt.id)).state != "completed"  # the other's lease may be over by now too


async def test_a_blocked_loop_costs_no_lease(disk, url):
    """Another worker sweeps all the while; three leases pass before the loop turns again."""
    runs: list[int] = []
    disk.queue("mail", lease=0.3, backoff=no_backoff())
    other = threading.Event()

    def sweep_elsewhere() -> None:
        async def sweep() -> None:
            async with Standfast(url) as sf:
                sf.queue("other", lease=0.3)  # so it sweeps ten times in a second
                async with sf.worker():
                    await seen(other.is_set)

        asyncio.run(sweep())

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.token)
        await asyncio.sleep(0)
        time.sleep(0.9)  # noqa: ASYNC251 - this is the fault under test

    sweeper = threading.Thread(target=sweep_elsewhere)
    async with disk.worker():
        sweeper.start()
        job = await ended(disk, (await disk.enqueue("mail")).id)
        other.set()
    sweeper.join()
    assert (runs, job.state, job.attempts) == ([1], "completed", 1)


async def test_a_claim_whose_answer_is_late_is_not_taken_for_a_lost_one(disk):
    """The beats see the job on disk before a busy loop sees the answer. Giving it back would run it twice."""
    runs: list[int] = []
    compared: list[Any] = []
    answer = asyncio.Event()
    disk.queue("mail", lease=0.3)

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.token)

    worker = disk.worker()

    async def claim_slowly(order: ClaimRequest, claim: Callable[[ClaimRequest], Awaitable[ClaimResult]]) -> ClaimResult:
        catch = await claim(order)
        if catch.claims:
            await answer.wait()
        return catch

    claim_through(disk, claim_slowly)
    listen_to_beats(worker, lambda beat: compared.extend(beat.held))
    async with worker:
        receipt = await disk.enqueue("mail")
        await seen(lambda: len(compared) == 4)
        answer.set()
        job = await ended(disk, receipt.id)
    assert (job.state, job.attempts, job.deferrals, runs) == ("completed", 1, 0, [1])


async def test_a_claim_whose_answer_was_lost_is_given_back_and_run(disk):
    """The store took the claim, the worker never heard of it: its own heartbeat finds the job and returns it."""
    runs: list[int] = []
    disk.queue("mail", lease=0.3)

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.attempt)

    worker = disk.worker()
    lost = await disk.enqueue("mail")
    await store_of(disk).claim(ClaimRequest(worker.id, (QueueDemand("mail", ("mail",), 1),)))
    async with worker:
        job = await ended(disk, lost.id)
    assert (job.state, job.attempts, job.deferrals, runs) == ("completed", 1, 1, [1])
    assert [line.reason_code for line in job.history] == ["given_back"]


async def test_a_stranger_is_handed_in_once(disk):
    """A second hand-in of the same job in one transaction would fail it, and whatever else is in it."""
    disk.queue("mail", lease=30)
    disk.handler("mail")(lambda _job: None)
    worker = disk.worker()
    async with worker:
        await seen(lambda: idle(worker))
        stranger = HeldJob(7, 1, "id", "mail", None, 0)
        handed: list[Any] = []
        hand_in_to(worker, handed.append)
        for _ in range(4):
            compare(worker, Beat(store_of(disk).now(), [stranger]))
    assert [(each.n, each.token) for each in handed] == [(7, 1)]


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), OSError("out of handles"), WrongAddress("no such role")], ids=repr
)
async def test_a_heartbeat_that_met_a_fault_nobody_foresaw_goes_on(disk, monkeypatch, caplog, error):
    """Without it every job of the worker would lapse while it runs, and be run beside it."""
    monkeypatch.setattr(worker_module, "POLL_EVERY", 3600.0)
    disk.queue("mail", lease=1)
    disk.handler("mail")(lambda _job: None)
    beats: list[Beat] = []
    async with disk.worker() as worker:
        listen_to_beats(worker, beats.append)
        for _ in range(2):
            await seen(fail_next_beat(worker, error).is_set)
            beats.clear()
            await seen(lambda: len(beats) > 1)
        assert failed_beats(worker) == 2
    assert caplog.text.count("a heartbeat failed and is tried again") == 2, "it went well in between"


async def test_the_heartbeat_of_a_call_goes_on_after_the_store_refused_it(disk, url, caplog):
    """Nothing but the heartbeat itself lives in a process that only calls: a job of its own would run a second time."""
    go, runs = asyncio.Event(), []
    disk.queue("mail", lease=6)

    @disk.handler("mail")
    async def mail(job):
        runs.append(job.token)
        await go.wait()

    calling = asyncio.create_task(disk.run("mail"))
    await seen(lambda: runs)
    with refusing(url, "UPDATE ON worker", "NEW.id LIKE 'caller:%'"):
        await seen(lambda: caplog.text.count("a store request failed") > 1)
    accepted = store_of(disk).now()

    async def beaten() -> bool:
        return any(caller.beat_at > accepted for caller in await live_callers(disk))

    await seen(beaten)
    go.set()
    assert ((await calling)["status"], runs) == ("ok", [1])
    assert caplog.text.count("a heartbeat failed and is tried again") == 1, "the same trouble again is no news"


async def test_a_job_may_ask_for_a_shorter_lease_than_its_queue(disk, url):
    runs: list[int] = []

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.token)
        await asyncio.sleep(1.5)

    async with Standfast(url) as elsewhere:
        elsewhere.queue("other", lease=0.3)
        async with elsewhere.worker(), disk.worker():
            job = await ended(disk, (await disk.enqueue("mail", lease=1)).id)
    assert (job.state, job.attempts, runs) == ("completed", 1, [1])


async def test_a_worker_keeps_up_with_a_lease_published_by_another_process(disk, url):
    runs: list[int] = []

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.token)
        await asyncio.sleep(1.2)

    async with Standfast(url) as elsewhere:
        elsewhere.queue("mail", lease=0.3)
        async with elsewhere.worker(), disk.worker():
            job = await ended(disk, (await disk.enqueue("mail")).id)
    assert (job.state, job.attempts, runs) == ("completed", 1, [1])


@pytest.mark.long
async def test_after_an_outage_longer_than_a_lease_the_worker_renews_and_nothing_runs_twice(in_file, path, monkeypatch):
    """The store is locked for longer than a lease, and comes back just when the worker's heartbeat has given up.

    Beside it another worker sweeps five times as often as this one beats, and would take the job away at once.
    """
    runs: list[int] = []
    go, gave_up = asyncio.Event(), threading.Event()
    in_file.queue("mail", lease=1.5, backoff=no_backoff())

    @in_file.handler("mail")
    async def handler(job):
        runs.append(job.token)
        await go.wait()
        return "done"

    async with Standfast(path) as other:
        other.queue("other", lease=0.3)
        async with in_file.worker() as worker, other.worker():
            receipt = await in_file.enqueue("mail")
            await reached(in_file, receipt.id, "running")
            listen_to_failed_beats(worker, gave_up.set)
            monkeypatch.setattr("standfast.store.store.PATIENCE", 0.2)
            outage = await asyncio.to_thread(Outage, path)
            lapsed = time.monotonic() + 2.0
            with pytest.raises(StoreUnavailable) as refused:
                await in_file.enqueue("mail", "while it is locked")
            assert refused.value.definite
            await seen(lambda: time.monotonic() > lapsed)
            gave_up.clear()
            await seen(gave_up.is_set)
            monkeypatch.undo()
            await asyncio.to_thread(outage.end)
            swept = time.monotonic() + 1.5  # whoever would take the job away has done so by then
            await seen(lambda: time.monotonic() > swept)
            go.set()
            job = await ended(in_file, receipt.id)
    assert (runs, job.state, job.result, job.attempts, job.history) == ([1], "completed", "done", 1, [])


async def test_an_end_that_meets_an_outage_is_written_when_the_store_is_back(in_file, path, monkeypatch):
    """Bookkeeping that fails after an effect is repeated, never the handler."""
    runs: list[int] = []
    go = asyncio.Event()
    in_file.queue("mail", lease=30)

    @in_file.handler("mail")
    async def handler(job):
        runs.append(job.token)
        await go.wait()
        return "done"

    async with in_file.worker() as worker:
        receipt = await in_file.enqueue("mail")
        await reached(in_file, receipt.id, "running")
        monkeypatch.setattr("standfast.store.store.PATIENCE", 0.2)
        outage = await asyncio.to_thread(Outage, path)
        go.set()
        await seen(lambda: store_of(in_file).trouble)
        assert held(worker)
        await asyncio.to_thread(outage.end)
        job = await ended(in_file, receipt.id)
        await seen(lambda: not held(worker))
    assert (runs, job.state, job.attempts) == ([1], "completed", 1)
    assert store_of(in_file).trouble is None
