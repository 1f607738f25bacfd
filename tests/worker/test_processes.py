"""Real worker processes: signalled, killed, killing themselves, and sharing the work."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from standfast import JobView, Standfast
from standfast.worker import worker as worker_module
from tests.waiting import ended, failure_of, job_of, reached, seen
from tests.worker.inside import has_planned_a_look_at, live_workers, store_of
from tests.worker.processes import Child, Log, children, terminate

RULES: dict[str, Any] = {"mail": {"lease": 0.6, "wait": 0.05}}


@pytest.fixture
def quick_sweeps(monkeypatch):
    """Let a worker that declares nothing sweep often."""
    monkeypatch.setattr(worker_module, "LONGEST_BEAT", 0.2)


async def exit_code(child: Child) -> int:
    return await asyncio.to_thread(child.wait, 15)


async def test_sigterm_finishes_what_it_can_gives_back_the_rest_and_exits_0(disk, url, log):
    with children(url, log, rules=RULES, grace=0.5) as [child]:
        quick = await disk.enqueue("mail", {"name": "quick", "do": 0.2})
        hangs = await disk.enqueue("mail", {"name": "hangs", "do": "hang"})
        await seen(lambda: len(log.lines()) == 2)
        terminate(child)
        assert await exit_code(child) == 0
    assert (await job_of(disk, quick.id)).state == "completed"
    job = await job_of(disk, hangs.id)
    assert (job.state, job.attempts, job.deferrals, job.worker) == ("queued", 0, 1, None)
    assert [(line.reason_code, line.attempt, line.cls) for line in job.history] == [("given_back", 1, None)]
    assert await live_workers(disk) == []


async def test_a_manual_attempt_cut_by_a_drain_may_have_landed(disk, url, log):
    with children(url, log, rules=RULES, grace=0.1, replay="manual") as [child]:
        receipt = await disk.enqueue("mail", {"name": "pays", "do": "hang"})
        await seen(log.lines)
        terminate(child)
        assert await exit_code(child) == 0
    job = await job_of(disk, receipt.id)
    assert (job.state, job.reason, job.attempts) == ("dead", "unknown_commit_state", 1)
    assert failure_of(job).landed == "maybe"


@pytest.mark.parametrize("queue", ["mail", "print"], ids=["async", "plain"])
async def test_an_interrupt_that_a_handler_raises_is_not_the_processs(disk, url, log, queue):
    with children(url, log, rules={queue: {"attempts": 2, "wait": 0.01}}) as [child]:
        bad = await disk.enqueue(queue, {"name": "bad", "do": "interrupt"})
        job = await ended(disk, bad.id)
        assert (job.state, job.reason, job.attempts) == ("dead", "max_attempts", 2)
        assert failure_of(job).error_kind == "KeyboardInterrupt"
        fine = await disk.enqueue("mail", {"name": "fine"})
        assert (await ended(disk, fine.id)).state == "completed"
        terminate(child)
        assert await exit_code(child) == 0


async def test_a_real_interrupt_stops_the_loop_and_gives_back_what_it_hits(disk, url, log):
    """The second one is thrown into whatever runs: here into the handler."""
    with children(url, log, bare=True) as [child]:
        receipt = await disk.enqueue("mail", {"name": "hit", "do": "be interrupted"})
        assert await exit_code(child) == -signal.SIGINT
    job = await job_of(disk, receipt.id)
    assert (job.state, job.attempts, job.deferrals) == ("queued", 0, 1)
    assert [line.reason_code for line in job.history] == ["given_back"]


async def test_a_worker_leaves_a_handler_behind_that_swallows_its_cancellation(disk, url, log):
    rules = {"mail": {"lease": 0.6, "attempts": 1}}
    with children(url, log, rules=rules, grace=0.1, last_word=0.2) as [child]:
        receipt = await disk.enqueue("mail", {"name": "stays", "do": "swallow"})
        await seen(log.lines)
        terminate(child)
        assert await exit_code(child) == 0
        _, told = child.communicate()
    assert f"job {receipt.id} of handler mail goes on although it was cancelled" in told
    job = await job_of(disk, receipt.id)
    assert (job.state, job.attempts) == ("running", 1)
    with children(url, log, rules=rules):
        job = await ended(disk, receipt.id)
    assert (job.reason, failure_of(job).landed) == ("worker_lost", "maybe")


async def test_a_second_sigterm_exits_at_once(disk, url, log):
    """A plain function cannot be cut, so the first signal alone would wait for it."""
    with children(url, log, grace=60) as [child]:
        await disk.enqueue("print", {"name": "blocks"})
        await seen(log.lines)

        def signalled_out() -> bool:
            terminate(child)
            return child.poll() is not None

        await seen(signalled_out)
        assert child.returncode == 128 + 15


async def test_two_workers_share_the_work_and_run_no_job_twice(disk, url, log):
    with children(url, log, 2, rules=RULES, concurrency=2) as started:
        await seen(lambda: live_workers(disk, at_least=2))
        receipts = await disk.enqueue_many("mail", [{"name": f"n{n}", "do": 0.02} for n in range(100)])
        jobs = [await ended(disk, receipt.id) for receipt in receipts]
        assert {line.pid for line in log.lines()} == {child.pid for child in started}
    assert {(job.state.value, job.attempts) for job in jobs} == {("completed", 1)}
    assert sorted(line.name for line in log.lines()) == sorted(f"n{n}" for n in range(100))


async def test_a_job_whose_worker_was_killed_is_run_by_another_without_waiting_for_its_lease(disk, url, log):
    rules = {"mail": {**RULES["mail"], "lease": 600}}
    with children(url, log, rules=rules) as [first]:
        receipt = await disk.enqueue("mail", {"name": "twice", "do": 1.0})
        await seen(log.lines)
        first.kill()
        with children(url, log, rules=rules):
            job = await ended(disk, receipt.id)
    assert (job.state, job.attempts) == ("completed", 2)
    [line] = job.history
    assert (line.reason_code, line.cls, line.landed) == ("worker_lost", "transient", "maybe")
    assert line.possible_duplicate
    assert [each.attempt for each in log.lines()] == [1, 2]


@pytest.mark.usefixtures("quick_sweeps")
@pytest.mark.parametrize("do", ["exit", "kill"])
async def test_a_crash_loop_ends_dead_as_worker_lost(disk, url, log, do):
    receipt = await disk.enqueue("mail", {"name": "poison", "do": do})
    async with disk.worker():  # without the application's code: it only sweeps
        for attempt in (1, 2):
            with children(url, log, rules={"mail": {**RULES["mail"], "attempts": 2}}) as [child]:
                await exit_code(child)
            await reached(disk, receipt.id, "dead" if attempt == 2 else "retry_pending")
    job = await job_of(disk, receipt.id)
    assert (job.reason, job.attempts, failure_of(job).landed) == ("worker_lost", 2, "maybe")
    assert [line.reason_code for line in job.history] == ["worker_lost", "worker_lost"]
    assert [line.attempt for line in log.lines()] == [1, 2]


async def lost_in(url: str, log: Log, sf: Standfast, **settings: Any) -> JobView:
    """Have a worker process killed while it runs a job, and look at what another makes of it."""
    receipt = await sf.enqueue("mail", {"name": "lost", "do": "hang"})
    with children(url, log, **settings) as [child]:
        await seen(log.lines)
        child.kill()
    async with sf.worker():
        job: JobView = await seen(lambda: moved(sf, receipt.id))
    return job


async def moved(sf: Standfast, job_id: str | None) -> JobView | None:
    job = await job_of(sf, job_id)
    return None if job.state == "running" else job


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_sweeper_without_the_code_uses_the_published_backoff(disk, url, log):
    job = await lost_in(url, log, disk, rules={"mail": {"lease": 0.6, "wait": 700, "attempts": 3}})
    assert (job.view, job.attempts, job.max_attempts) == ("retry_pending", 1, 3)
    assert 630 <= (job.history[0].delay or 0) <= 700


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_sweeper_without_the_code_uses_the_published_number_of_attempts(disk, url, log):
    job = await lost_in(url, log, disk, rules={"mail": {"lease": 0.6, "attempts": 1}})
    assert (job.state, job.reason) == ("dead", "worker_lost")


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_sweeper_without_the_code_knows_a_manual_handler(disk, url, log):
    job = await lost_in(url, log, disk, rules=RULES, replay="manual")
    assert (job.state, job.reason, job.attempts) == ("dead", "unknown_commit_state", 1)


async def test_an_enqueue_wakes_a_worker_in_another_process(disk, url, log):
    """Its poll comes once an hour, so whatever starts was woken."""
    with children(url, log, poll=3600.0):
        await seen(lambda: live_workers(disk, at_least=1))
        for number in range(20):
            receipt = await disk.enqueue("mail", {"name": f"n{number}"})
            assert (await ended(disk, receipt.id)).state == "completed"


async def test_a_retry_in_one_process_is_known_in_another(disk, url, log, monkeypatch):
    """The process that failed the job is gone when it is due; the other learnt of it when it was written."""
    monkeypatch.setattr(worker_module, "POLL_EVERY", 3600.0)
    runs: list[int] = []

    @disk.handler("mail")
    async def handler(job):
        runs.append(job.attempt)

    with children(url, log, rules={"mail": {"wait": 1.5}}) as [child]:
        receipt = await disk.enqueue("mail", {"name": "again", "do": "fail"})
        await seen(log.lines)
        async with disk.worker() as worker:
            await reached(disk, receipt.id, "retry_pending")
            await seen(
                lambda: has_planned_a_look_at(worker, "mail")
            )  # a hint that was not sent yet dies with its process
            child.kill()
            assert (await ended(disk, receipt.id)).state == "completed"
    assert runs == [2]


async def test_leaving_takes_the_worker_off_the_list(disk):
    disk.handler("mail")(lambda _job: None)
    async with disk.worker() as worker:
        assert [row.id for row in await live_workers(disk)] == [worker.id]
    assert await live_workers(disk) == []
    assert store_of(disk).trouble is None
