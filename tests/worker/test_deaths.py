"""Workers that die: noticed by the lock of their process, named in health, and what they held runs alone."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from typing import Any

import pytest

from standfast import Standfast
from standfast.worker import upkeep
from standfast.worker import worker as worker_module
from standfast.worker.upkeep import WorkerCard
from tests.waiting import ended, job_of, reached, seen, stamp
from tests.worker.inside import live_workers, store_of
from tests.worker.processes import Log, children

HOST = socket.gethostname()
RULES: dict[str, Any] = {"mail": {"lease": 600, "wait": 0.01}}


async def hanging(sf: Standfast, log: Log, number: int) -> list[str]:
    """Have a worker process hold so many jobs that never end."""
    before = len(log.lines())
    receipts = await sf.enqueue_many("mail", [{"name": f"n{n}", "do": "hang"} for n in range(number)])
    await seen(lambda: len(log.lines()) == before + number)
    return [str(receipt.id) for receipt in receipts]


async def named(sf: Standfast, pid: int) -> list[str]:
    return [issue for issue in (await sf.health())["issues"] if f"pid {pid}," in issue]


async def test_jobs_of_a_process_that_died_are_suspects_within_two_seconds(disk, url, log):
    """Their leases have ten minutes left. The worker that notices has no code for them."""
    with children(url, log, rules=RULES) as [child]:
        ids = await hanging(disk, log, 3)
        async with disk.worker():
            died = time.time()
            child.kill()
            jobs = [await reached(disk, job_id, "queued") for job_id in ids]
            assert {job.attempts for job in jobs} == {0}
            assert max(stamp(job.history[0].at) for job in jobs) - died < 2.0
            assert "ran when its worker died; next it runs alone" in await disk.explain(ids[0])
            said = await named(disk, child.pid)
    assert [issue.partition(", last")[0] for issue in said] == [f"worker on {HOST}, pid {child.pid}, died"]
    assert said[0].endswith("it ran mail/mail (3)")


async def test_a_frozen_worker_is_not_dead(disk, url, log, monkeypatch):
    monkeypatch.setattr(worker_module, "DEATHS_EVERY", 0.05)
    with children(url, log, rules=RULES) as [frozen]:
        [kept] = await hanging(disk, log, 1)
        frozen.send_signal(signal.SIGSTOP)
        with children(url, log, rules=RULES) as [killed]:
            [lost] = await hanging(disk, log, 1)
            async with disk.worker():
                killed.kill()
                await reached(disk, lost, "retry_pending")
                assert (await job_of(disk, kept)).state == "running"
                assert await named(disk, frozen.pid) == []


async def test_a_worker_that_died_is_named_also_where_none_is_left_to_notice(disk, url, log):
    with children(url, log, rules=RULES) as [child]:
        await hanging(disk, log, 2)
        child.kill()
        child.wait()
        [said] = await named(disk, child.pid)
    assert said.startswith(f"worker on {HOST}, pid {child.pid}, died, last heard of ")
    assert said.endswith("it ran mail/mail (2)")


async def test_a_worker_that_left_in_order_is_not_named_and_an_idle_store_is_healthy(sf):
    sf.handler("mail")(lambda _job: None)
    async with sf.worker():
        await ended(sf, (await sf.enqueue("mail")).id)
    sf.clock.advance(3600)
    assert (await sf.health())["issues"] == []


async def test_a_worker_of_another_host_is_named_within_fifteen_seconds(sf):
    """Nothing is known of its process; it beats every ten seconds, and did not."""
    sf.handler("mail")(lambda _job: None)
    worker = sf.worker()
    async with worker:
        row = await live_workers(sf)
        assert [each.id for each in row] == [worker.id]
        await asyncio.to_thread(pretend_elsewhere, sf, worker.id)
        sf.clock.advance(14)
        [said] = await named(sf, 7)
        assert said == "worker on elsewhere, pid 7, has been silent for 14 s; it runs nothing"


def pretend_elsewhere(sf: Any, worker: str) -> None:
    store_of(sf).write(upkeep.beat, WorkerCard(f"{worker}-elsewhere", "elsewhere", 7, "[]", "{}")).result()


async def test_a_worker_holds_nothing_else_while_it_runs_a_suspect_and_others_go_on(disk, url, log, monkeypatch):
    """What runs when suspects are found is let end first; what comes meanwhile waits, and is run after."""
    monkeypatch.setattr(worker_module, "DEATHS_EVERY", 0.05)
    running: set[str] = set()
    beside: dict[str, set[str]] = {}
    go = asyncio.Event()

    @disk.handler("mail")
    async def mail(job):
        running.add(job.id)
        beside[job.id] = set(running)
        if job.payload.get("waits"):
            await go.wait()
        await asyncio.sleep(0.01)
        for each in running:
            beside[each] |= running
        running.discard(job.id)

    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 3)
        disk.queue("mail", lease=600)
        await disk.queues.pause("mail")
        async with disk.worker():
            child.kill()
            for job_id in suspects:
                await reached(disk, job_id, "queued")
            others = [(await disk.enqueue("mail", {"waits": True})).id for _ in range(3)]
            await disk.queues.resume("mail")
            await seen(lambda: len(running) == len(others))
            go.set()
            jobs = [await ended(disk, job_id) for job_id in (*suspects, *others)]
    assert {(job.state.value, job.attempts) for job in jobs} == {("completed", 1)}
    assert [beside[job_id] for job_id in suspects] == [{job_id} for job_id in suspects]
    assert all(beside[str(job_id)] >= set(others) for job_id in others)


async def test_a_caller_that_died_leaves_its_call_to_be_run_alone(disk, url):
    """An application that only calls may die too; what it ran is decided about in the same way."""
    program = (
        "import asyncio, os\n"
        "from standfast import Standfast\n"
        f"sf = Standfast({url!r})\n"
        "sf.queue('mail', lease=600)\n"
        "sf.handler('mail')(lambda job: os._exit(0))\n"
        "asyncio.run(sf.run('mail', {'name': 'call'}))\n"
    )
    caller = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await caller.wait()
    disk.handler("mail")(lambda _job: "done")
    async with disk.worker():
        [job] = await disk.jobs()
        done = await ended(disk, job.id)
    assert (done.state, done.attempts, [line.reason_code for line in done.history]) == ("completed", 2, ["worker_lost"])


@pytest.mark.parametrize("ends", ["in order", "killed"])
async def test_a_caller_that_held_nothing_is_not_named(disk, url, ends):
    program = (
        "import asyncio, os\n"
        "from standfast import Standfast\n"
        f"sf = Standfast({url!r})\n"
        "sf.handler('mail')(lambda job: None)\n"
        "asyncio.run(sf.run('mail'))\n"
        f"os._exit(1) if {ends!r} == 'killed' else None\n"
    )
    caller = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await caller.wait()
    assert await named(disk, caller.pid) == []
