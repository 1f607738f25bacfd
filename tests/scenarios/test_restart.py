"""Kill everything, start again: everything acknowledged completes, and no clock is reset."""

from __future__ import annotations

import sys
from typing import Any

from standfast import QueueOptions, Standfast, Transient, fixed
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.testing import FrozenClock, drain
from standfast.worker import upkeep
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest, WorkerCard
from tests.waiting import ended, job_of, reached, seen, stamp
from tests.warm import run_warm
from tests.worker.inside import store_of
from tests.worker.processes import Log, children, environment

RULES: dict[str, Any] = {"mail": {"lease": 0.6, "wait": 0.2, "attempts": 4}}

PRODUCE = """
import asyncio, os, signal, sys
from standfast import Standfast

async def main():
    sf = Standfast(sys.argv[1])
    for number in range(20):
        receipt = await sf.enqueue("mail", {"name": f"n{number}", "do": 0.05})
        print(receipt.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def produce_and_die(url: str) -> list[str]:
    """Enqueue in a process that is killed right after its last acknowledgement; give what was acknowledged."""
    done = run_warm(
        [sys.executable, "-c", PRODUCE, url],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    return str(done.stdout).split()


async def test_whatever_was_acknowledged_completes_after_everything_was_killed(url, log: Log):
    acknowledged = produce_and_die(url)
    assert len(acknowledged) == 20
    with children(url, log, rules=RULES, concurrency=2) as [first]:
        await seen(lambda: len(log.lines("end")) >= 5)
        first.kill()
    async with Standfast(url) as sf:
        with children(url, log, 2, rules=RULES):
            jobs = [await ended(sf, job_id) for job_id in acknowledged]
    assert {job.state.value for job in jobs} == {"completed"}
    assert {line.name for line in log.lines("end")} == {f"n{n}" for n in range(20)}
    assert all(job.attempts in {1, 1 + len(job.history)} for job in jobs), "cut in company, an attempt is not spent"


async def test_ages_attempts_and_due_times_are_kept(url, log: Log):
    """A job that failed once and waits for its next try is the same job after the restart."""
    async with Standfast(url) as sf:
        with children(url, log, rules={"mail": {"wait": 500}}):
            receipt = await sf.enqueue("mail", {"name": "fails", "do": "fail"})
            later = await sf.enqueue("mail", {"name": "later"}, delay=800)
            before = await reached(sf, receipt.id, "retry_pending")
            planned = await job_of(sf, later.id)
    async with Standfast(url) as sf:
        after, still = await job_of(sf, receipt.id), await job_of(sf, later.id)
    assert (after.attempts, after.max_attempts, after.history[0].reason_code) == (1, 5, "dependency_unavailable")
    for name in ("created_at", "first_seen_at", "last_entered_at", "due_at"):
        assert abs(stamp(getattr(before, name)) - stamp(getattr(after, name))) < 0.1
    assert abs(stamp(planned.due_at) - stamp(still.due_at)) < 0.1
    assert still.view == "scheduled"


async def test_first_seen_and_last_entered_are_both_kept_over_a_reboot(url):
    """Time since boot begins anew; queue time goes on, so ages, max_age and delays do too."""
    clock = FrozenClock()
    rules: QueueOptions = {"backoff": fixed(600), "max_age": "1h"}

    async def fails(_job: Any) -> None:
        raise Transient("down")

    async with Standfast(url, clock=clock) as sf:
        sf.queue("mail", **rules)
        sf.handler("mail")(fails)
        born = clock.wall()
        receipt = await sf.enqueue("mail")
        await drain(sf)
        clock.advance(120)
    clock.advance(60)
    clock.reboot()
    async with Standfast(url, clock=clock) as sf:
        sf.queue("mail", **rules)
        sf.handler("mail")(fails)
        job = await job_of(sf, receipt.id)
        assert [stamp(job.first_seen_at), stamp(job.last_entered_at), stamp(job.created_at)] == [born] * 3
        assert (job.view, job.attempts) == ("retry_pending", 1)
        assert not await drain(sf), "its ten minutes are not over"
        clock.advance(600)
        assert await drain(sf) == {"mail": 1}
        clock.advance("1h")
        await drain(sf)
        assert (await job_of(sf, receipt.id)).reason == "max_age"


async def test_what_ran_when_the_machine_went_down_is_run_again_at_once(path):
    """A worker of an earlier boot is gone for certain: nobody waits for its lease."""
    clock = FrozenClock()
    runs: list[int] = []

    async def handler(job: Any) -> None:
        runs.append(job.attempt)

    async with Standfast(path, clock=clock) as sf:
        sf.queue("mail", lease=86400, backoff=fixed(1))
        receipt = await sf.enqueue("mail")
        await claim_and_vanish(sf)
    clock.reboot()
    async with Standfast(path, clock=clock) as sf:
        sf.handler("mail")(handler)
        await sweep(sf)
        clock.advance(1)
        await drain(sf)
        job = await job_of(sf, receipt.id)
    assert (job.state, job.attempts, runs) == ("completed", 2, [2])
    assert [line.reason_code for line in job.history] == ["worker_lost"]


async def claim_and_vanish(sf: Standfast) -> None:
    """Take the job as a worker does that never comes back."""
    store = store_of(sf)
    store.write(upkeep.beat, WorkerCard("gone", "host", 1, "[]", "{}")).result()
    await store.claim(ClaimRequest("gone", (QueueDemand("mail", ("mail",), 1),)))


async def sweep(sf: Standfast) -> None:
    await Sweeper(store_of(sf), SweepRequest(every=10, patience=10)).sweep()
