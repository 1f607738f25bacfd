"""What a worker does beside its jobs: pruning, sweeping, and saying what never waits."""

from __future__ import annotations

from standfast import Transient, fixed
from standfast.concurrency.loops import Loop
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.testing import drain
from standfast.worker import upkeep
from standfast.worker import worker as worker_module
from standfast.worker.heartbeat import beat_for
from standfast.worker.pruner import Pruner
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest, WorkerCard
from tests.waiting import ended, job_of, reached, seen
from tests.worker.inside import store_of
from tests.worker.outage import refusing


async def issues(sf) -> list[str]:
    found: list[str] = (await sf.health())["issues"]
    return found


# --- pruning


async def test_pruning_is_on_by_default(disk, monkeypatch):
    monkeypatch.setattr(worker_module, "PRUNE_EVERY", 0.05)
    disk.queue("mail", keep_completed=0.2)
    disk.queue("kept")
    disk.handler("mail")(lambda _job: None)
    disk.handler("kept")(lambda _job: None)
    async with disk.worker():
        pruned, kept = await disk.enqueue("mail"), await disk.enqueue("kept")
        await ended(disk, kept.id)

        async def gone() -> bool:
            return await disk.status(pruned.id) is None

        await seen(gone)
        assert (await job_of(disk, kept.id)).state == "completed"


async def test_only_what_ended_well_is_pruned(sf):
    sf.queue("mail", keep_completed="1h", backoff=fixed(86400), attempts=2)

    @sf.handler("mail")
    async def handler(job):
        if job.payload == "fails":
            raise Transient("down")

    completed = await sf.enqueue("mail", "fine")
    waiting = await sf.enqueue("mail", "fails")
    dead = await sf.enqueue("mail", "fails", attempts=1)
    await drain(sf)
    sf.clock.advance("2h")
    await Pruner(store_of(sf)).prune()
    assert await sf.status(completed.id or "") is None
    assert (await job_of(sf, waiting.id)).view == "retry_pending"
    assert (await job_of(sf, dead.id)).state == "dead"


# --- sweeping


async def sweep(sf) -> None:
    """Sweep as a worker does that has swept before: twice, a beat apart."""
    sweeper = Sweeper(store_of(sf), SweepRequest(every=1000, patience=0))
    await sweeper.sweep()
    sf.clock.advance(1)
    await sweeper.sweep()


async def test_a_job_that_waited_too_long_dies_without_a_claim(sf):
    sf.queue("mail", max_age="1h")
    receipt = await sf.enqueue("mail")
    expiring = await sf.enqueue("print", expires=sf.clock.wall() + 60)
    await sweep(sf)
    assert (await job_of(sf, receipt.id)).state == "queued"
    sf.clock.advance("1h")
    await sweep(sf)
    old, late = await job_of(sf, receipt.id), await job_of(sf, expiring.id)
    assert (old.state, old.reason, old.attempts) == ("dead", "max_age", 0)
    assert (late.state, late.reason, late.attempts) == ("dead", "expired", 0)


async def test_a_job_claimed_too_late_dies_without_entering_its_handler(sf):
    runs: list[str] = []
    sf.queue("mail", max_age="1h")

    @sf.handler("mail")
    async def handler(job):
        runs.append(job.id)

    receipt = await sf.enqueue("mail")
    sf.clock.advance("1h")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.reason, job.attempts, runs) == ("dead", "max_age", 0, [])


async def test_a_worker_that_is_seen_late_has_one_beat_to_renew(sf):
    """An outage that has just ended makes live workers look lost; the lost ones stay so."""
    sf.queue("mail", lease=30)
    receipt = await sf.enqueue("mail")
    store = store_of(sf)
    card = WorkerCard("w", "host", 1, "[]", "{}")
    sweeper = Sweeper(store, SweepRequest(every=1e9, patience=0), wait=beat_for)
    store.write(upkeep.beat, card).result()
    await store.claim(ClaimRequest("w", (QueueDemand("mail", ("mail",), 1),)))

    async def state_after(seconds: float) -> str:
        sf.clock.advance(seconds)
        await sweeper.sweep()
        return (await job_of(sf, receipt.id)).view

    assert await state_after(31) == "running"
    store.write(upkeep.beat, card).result()
    assert await state_after(10) == "running", "it came back in time"
    assert await state_after(25) == "running", "late again, and seen so for the first time"
    assert await state_after(9.9) == "running"
    assert await state_after(0.1) == "retry_pending"


async def test_a_lost_job_that_cannot_be_moved_holds_up_no_other_and_is_shown(disk, url, caplog):
    """All decisions of a sweep go to the store together; one that it refuses is found again by every sweep."""
    disk.queue("mail", lease=0.3, backoff=fixed(600))
    ids = [str(receipt.id) for receipt in await disk.enqueue_many("mail", [1, 2, 3])]
    store = store_of(disk)
    store.write(upkeep.beat, WorkerCard("lost", "elsewhere", 1, "[]", "{}")).result()
    claimed = await store.claim(ClaimRequest("lost", (QueueDemand("mail", ("mail",), 3),)))
    [number] = [claim.n for claim in claimed.claims if claim.id == ids[1]]
    said = f"the end of job {ids[1]}, retry, cannot be written"
    disk.handler("other")(lambda _job: None)
    with refusing(url, "UPDATE ON job", f"OLD.n = {number} AND NEW.state <> 'running'"):
        async with disk.worker(queues=["other"]):
            for job_id in (ids[0], ids[2]):
                await reached(disk, job_id, "queued")
            assert (await job_of(disk, ids[1])).state == "running"
            await seen(lambda: is_issue(disk, "mail/mail: the end of a job cannot be written"))
            refusals = caplog.text.count("a store request failed")
            await seen(lambda: caplog.text.count("a store request failed") > refusals + 1)
    assert caplog.text.count(said) == 1, "it is tried again at every sweep, and told once"
    async with disk.worker(queues=["other"]):
        await reached(disk, ids[1], "queued")


async def is_issue(sf, beginning: str) -> bool:
    return any(issue.startswith(beginning) for issue in await issues(sf))


async def test_a_loop_goes_on_after_a_failure_and_counts_it():
    calls: list[int] = []

    async def fails_at_first() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise LookupError

    loop = Loop("test", 0.001, fails_at_first)
    loop.start()
    await seen(lambda: len(calls) >= 4)
    await loop.stop()
    await loop.stop()
    assert loop.failures == 2


# --- what never waits


async def test_a_job_without_a_handler_waits_visibly_and_spends_nothing(sf):
    @sf.handler("mail")
    async def handler(_job):
        pass

    receipt = await sf.enqueue("nobody", {"to": "a@b.c"})
    for _ in range(3):
        await drain(sf)
        sf.clock.advance("1h")
    job = await job_of(sf, receipt.id)
    assert (job.state, job.attempts, job.deferrals, job.history) == ("queued", 0, 0, [])
    assert any("no handler is known" in each for each in await issues(sf) if each.startswith("nobody: "))
    sf.handler("nobody")(handler.function)
    await drain(sf)
    assert (await job_of(sf, receipt.id)).state == "completed"
    assert not any("nobody" in issue for issue in await issues(sf))


async def test_a_job_whose_handler_is_unknown_in_a_busy_queue_is_named(sf):
    """The queue's other jobs run, so it neither backs up nor lacks a worker: only this tells."""
    sf.handler("mail")(lambda _job: None)
    receipt = await sf.enqueue("mail", handler="typo")
    await sf.enqueue("mail")
    await drain(sf)
    sf.clock.advance("1h")
    await sf.enqueue("mail")
    await drain(sf)
    assert (await job_of(sf, receipt.id)).state == "queued"
    assert "mail: no handler 'typo' is known" in await issues(sf)


async def test_a_delayed_job_that_came_due_without_any_worker_is_counted(sf):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mail", delay=60)
    assert (await sf.health())["total_pending"] == 0
    assert await issues(sf) == []
    sf.clock.advance(61)
    assert (await sf.health())["total_pending"] == 1
    assert "mail: 1 job has been due for 1 s and no worker serves this queue" in await issues(sf)


async def test_the_one_due_job_without_a_worker_shows(sf):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mail")
    assert await issues(sf) == ["mail: 1 job is due and no worker serves this queue"]
