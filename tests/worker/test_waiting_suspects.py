"""Jobs of a worker that died, where they cannot be run alone at once: others go on, and they have their turn."""

from __future__ import annotations

import asyncio
import sys

import pytest

from standfast.worker import suspects as suspects_module
from standfast.worker import worker as worker_module
from tests.waiting import ended, job_of, reached, seen
from tests.worker.processes import children
from tests.worker.test_deaths import RULES, hanging


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(worker_module, "DEATHS_EVERY", 0.05)
    monkeypatch.setattr(suspects_module, "FIRST_TURN", 0.05)
    monkeypatch.setattr(suspects_module, "LONGEST_TURN", 0.05)
    monkeypatch.setattr(suspects_module, "PAUSES", (0.01,))


async def test_a_job_that_does_not_end_keeps_no_others_waiting_while_suspects_wait_for_it(disk, url, log):
    """The worker would hold nothing else, and cannot: it claims again, and tries later."""
    go, running = asyncio.Event(), asyncio.Event()

    @disk.handler("mail")
    async def mail(job):
        if job.payload.get("waits"):
            running.set()
            await go.wait()

    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        await disk.queues.pause("mail")
        async with disk.worker():
            child.kill()
            for job_id in suspects:
                await reached(disk, job_id, "queued")
            long = (await disk.enqueue("mail", {"waits": True})).id
            await disk.queues.resume("mail")
            await seen(running.is_set)
            for _ in range(20):
                assert (await ended(disk, (await disk.enqueue("mail", {})).id)).state == "completed"
            assert [(await job_of(disk, job_id)).state.value for job_id in suspects] == ["queued", "queued"]
            go.set()
            jobs = [await ended(disk, job_id) for job_id in (long, *suspects)]
    assert {(job.state.value, job.attempts) for job in jobs} == {("completed", 1)}


@pytest.mark.parametrize(
    "program",
    ["raise SystemExit(1)", "raise SystemExit(0)", "import time; time.sleep(600)"],
    ids=["fails", "finds nothing to run", "is never ready"],
)
async def test_a_worker_runs_suspects_itself_if_no_process_of_their_own_does(disk, url, log, monkeypatch, program):
    """An application may bind a port or take a lock when it is loaded: a second process of it never begins."""
    monkeypatch.setattr(suspects_module, "LONGEST_START", 0.1)
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "done")
        async with disk.worker(suspects=[sys.executable, "-S", "-c", program]):
            child.kill()
            jobs = [await ended(disk, job_id) for job_id in suspects]
    assert {(job.state.value, job.attempts, job.result) for job in jobs} == {("completed", 1, "done")}


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
async def test_a_session_hears_that_a_run_was_cut_off_when_its_worker_died(disk, url, log, ends):
    """No attempt was spent, and yet the handler was entered before: done at once is not what happened."""
    with children(url, log, rules=RULES) as [child]:
        job_id = (await disk.enqueue("mail", {"name": "s", "do": "hang"}, session="s1")).id
        await seen(log.lines)
        await hanging(disk, log, 1)
        async with disk.worker(queues=["other"]):
            child.kill()
            await reached(disk, job_id, "queued")
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: None)
        if ends == "cancelled":
            await disk.cancel(job_id)
        async with disk.worker():
            assert (await ended(disk, job_id)).state == ends
    [message] = await disk.inbox.list("s1")
    said = "mail/mail is done, after a run that was cut off and did not count."
    expected = {"completed": ("retry_success", said), "cancelled": ("retry_exhausted", message["message"])}
    assert (message["kind"], message["message"]) == expected[ends]
