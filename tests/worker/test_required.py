"""Handlers that require what a probe can tell of: disabled while it says no, back by themselves. Capability 94."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast import ConfigurationError, Permanent, Standfast, Transient, fixed
from standfast.testing import drain
from standfast.wings.limits.readiness import COOLDOWN
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest
from tests.waiting import ended, job_of, reached, seen
from tests.worker.inside import store_of


class Bridge:
    """Something a handler depends on, and its probe."""

    def __init__(self, *, up: bool = False) -> None:
        self.up = up
        self.asked = 0
        self.calls = 0

    async def probe(self) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        return self.up

    async def handler(self, _job: Any) -> str:
        self.calls += 1
        if not self.up:
            raise Transient("the bridge is down")
        return "written"


@pytest.fixture
def bridge(sf: Any) -> Bridge:
    made = Bridge()
    sf.queue("notes", backoff=fixed(1))
    sf.handler("notes", requires=[made.probe])(made.handler)
    return made


async def told(sf: Any) -> list[tuple[str, dict[str, Any]]]:
    """Give the notices about handlers so far."""
    kinds = ["registry_disabled", "registry_auto_recovered", "completed"]
    found: list[tuple[str, dict[str, Any]]] = []
    await sf.enqueue("last", {})
    async for notice in sf.subscribe([*kinds, "enqueued"], after=0):
        if notice.queue == "last":
            return found
        if notice.kind in kinds[:2]:
            found.append((notice.kind, notice.data))
    raise AssertionError


async def test_a_worker_defers_the_jobs_of_a_disabled_handler_and_says_why(sf, bridge):
    receipt = await sf.enqueue("notes", {})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.view, job.parked_on, job.attempts, job.deferrals) == ("parked", "probe:notes:notes", 0, 1)
    assert (bridge.calls, bridge.asked) == (0, 1)
    sf.clock.advance(5)
    assert await sf.explain(job.id) == (
        "Its handler 'notes' has been disabled for 5 s: what it requires says no (it said False). That is asked "
        "again by itself, and no attempt is spent; `retry` calls it all the same."
    )
    health = await sf.health()
    assert "notes/notes: disabled for 5 s, because what it requires says no: it said False" in health["issues"]
    [gate] = [gate for gate in (await sf.stats())["gates"] if gate["kind"] == "probe"]
    assert (gate["why"], gate["up"]) == ("it said False", False)


async def test_a_handler_that_is_back_runs_what_waited_and_that_is_told(sf, bridge):
    receipts = await sf.enqueue_many("notes", [1, 2, 3])
    await drain(sf)
    bridge.up = True
    await drain(sf)
    assert (bridge.calls, bridge.asked) == (0, 1), "not asked again within the cooldown"
    sf.clock.advance(COOLDOWN)
    await drain(sf)
    assert [(await job_of(sf, receipt.id)).attempts for receipt in receipts] == [1, 1, 1]
    assert (bridge.calls, bridge.asked) == (3, 2)
    assert await told(sf) == [
        ("registry_disabled", {"handler": "notes"}),
        ("registry_auto_recovered", {"handler": "notes"}),
    ]
    assert [issue for issue in (await sf.health())["issues"] if "disabled" in issue] == []
    said = await sf.run("notes", 4)
    assert (said["status"], said["registry_auto_recovered"]) == ("ok", True)
    assert "registry_auto_recovered" not in await sf.run("notes", 5), "told once"


async def test_a_call_asks_again_after_the_cooldown_and_says_that_it_is_back(sf, bridge):
    said = await sf.run("notes", 1)
    assert (said["status"], said["queued_for_retry"], bridge.calls) == ("queued", True, 1)
    assert "registry_auto_recovered" not in said
    bridge.up = True
    sf.clock.advance(COOLDOWN)
    replies = await asyncio.gather(*(sf.run("notes", number) for number in range(5)))
    assert ([reply["status"] for reply in replies], bridge.asked) == (["ok"] * 5, 2)
    assert [reply.get("registry_auto_recovered") for reply in replies].count(True) == 1
    assert ("registry_auto_recovered", {"handler": "notes"}) in await told(sf)


async def test_a_call_is_made_all_the_same_and_its_own_error_decides(sf, bridge):
    for number in (1, 2):
        said = await sf.run("notes", number)
        job = await job_of(sf, said["operation_id"])
        assert (said["error"].split(" (")[0], job.attempts) == ("the bridge is down", 1)
    assert (bridge.calls, bridge.asked) == (2, 1), "the second within the cooldown"
    sf.clock.advance(2)
    await drain(sf)
    assert bridge.calls == 2, "workers defer the repeats"
    assert (await job_of(sf, said["operation_id"])).view == "parked"


@pytest.mark.parametrize("parked", [True, False])
async def test_a_retry_that_is_asked_for_calls_it_all_the_same(sf, bridge, parked):
    receipt = await sf.enqueue("notes", {}, delay=0 if parked else 3600)
    await sf.enqueue("notes", {})
    await drain(sf)
    assert bridge.calls == 0
    said = await sf.retry(receipt.id)
    assert said["status"] == "queued"
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (bridge.calls, job.attempts, job.history[-1].error_kind) == (1, 1, "Transient")


async def test_a_letter_that_is_retried_is_called_too(sf, bridge):
    bridge.up = True
    sf.queue("notes", attempts=1)
    said = await sf.hand_over("notes", {}, Permanent("no"))
    bridge.up = False
    await sf.enqueue("notes", {})
    await drain(sf)
    assert (await sf.retry(said["operation_id"]))["status"] == "queued"
    await drain(sf)
    assert bridge.calls == 1


async def test_deferring_ends_at_max_age(sf, bridge):
    sf.queue("notes", max_age=60)
    receipt = await sf.enqueue("notes", {})
    await drain(sf)
    sf.clock.advance(61)
    await Sweeper(store_of(sf), SweepRequest(every=1, patience=0)).sweep()
    job = await job_of(sf, receipt.id)
    assert (job.state, job.reason, bridge.calls) == ("dead", "max_age", 0)


async def test_other_handlers_of_the_queue_go_on(sf, bridge):
    ran = []

    @sf.handler("notes", name="other")
    async def other(job):
        ran.append(job.payload)

    await sf.enqueue("notes", {})
    await sf.enqueue("notes", 7, handler="other")
    await drain(sf)
    assert (ran, bridge.calls) == ([7], 0)


async def test_a_yes_is_doubted_once_nothing_answers(sf, bridge):
    bridge.up = True
    assert (await sf.run("notes", 1))["status"] == "ok"
    bridge.up = False
    assert (await sf.run("notes", 2))["status"] == "queued"
    assert bridge.asked == 1, "the yes was not doubted yet"
    sf.clock.advance(COOLDOWN)
    await drain(sf)
    assert (bridge.asked, bridge.calls) == (2, 2), "it is asked, says no, and the repeat is deferred"


async def test_one_that_answers_is_not_asked_again(sf, bridge):
    bridge.up = True
    for number in range(3):
        await sf.run("notes", number)
        sf.clock.advance(COOLDOWN)
        await sf.enqueue("notes", number)
        await drain(sf)
    assert bridge.asked == 1


async def test_what_nobody_says_no_to_any_more_is_let_go(sf, bridge):
    """The process that was disabled is gone; another one, that requires nothing, takes its jobs."""
    receipt = await sf.enqueue("notes", {})
    await drain(sf)
    sf.clock.advance(200)
    await sf.enqueue("other", {})
    async with sf.worker(["other"]):
        await reached(sf, receipt.id, "queued")
        await seen(lambda: parked_nowhere(sf, receipt.id))
    assert bridge.calls == 0


async def parked_nowhere(sf: Any, job_id: str | None) -> bool:
    return (await job_of(sf, job_id)).parked_on is None


async def test_a_process_that_has_it_up_runs_what_another_cannot(disk, url):
    """The one that cannot parks nothing while the other says that it can."""
    here, there = Bridge(), Bridge(up=True)
    disk.handler("notes", requires=here.probe)(here.handler)
    async with Standfast(url) as other:
        other.handler("notes", requires=there.probe)(there.handler)
        first = await disk.enqueue("notes", {})
        async with disk.worker():
            await reached(disk, first.id, "parked")
            async with other.worker():
                assert (await ended(disk, first.id)).state == "completed"  # by now the other has said so
                receipts = [first, *[await disk.enqueue("notes", number) for number in range(20)]]
                for receipt in receipts:
                    assert (await ended(disk, receipt.id)).state == "completed"
                health = await disk.health()
        assert (here.calls, there.calls) == (0, 21)
        deferrals = [(await job_of(disk, receipt.id)).deferrals for receipt in receipts]
        assert sum(deferrals) <= 3, "the first one, and a claim or two that met the gate before it was opened"
        assert [issue for issue in health["issues"] if "disabled for" in issue] == []


async def test_a_worker_asks_again_by_itself(disk, monkeypatch):
    monkeypatch.setattr("standfast.wings.limits.readiness.COOLDOWN", 0.2)
    bridge = Bridge()
    disk.handler("notes", requires=[bridge.probe])(bridge.handler)
    async with disk.worker():
        receipt = await disk.enqueue("notes", {})
        await reached(disk, receipt.id, "parked")
        bridge.up = True
        assert (await ended(disk, receipt.id)).result == "written"


@pytest.mark.parametrize("requires", [7, [7], ["ftp://x"], "not a url"])
async def test_what_cannot_be_asked_is_refused_where_it_is_declared(sf, requires):
    with pytest.raises(ConfigurationError, match="probe"):
        sf.handler("notes", requires=requires)(lambda _job: None)


async def test_several_probes_must_all_say_yes_plain_or_async(sf):
    asked = []
    ups = {"a": True, "b": False}

    def probe(name: str) -> Any:
        def says() -> bool:
            asked.append(name)
            return ups[name]

        return says

    sf.handler("notes", requires=[probe("a"), probe("b")])(lambda _job: "done")
    receipt = await sf.enqueue("notes", {})
    await drain(sf)
    assert (await job_of(sf, receipt.id)).view == "parked"
    ups["b"] = True
    sf.clock.advance(COOLDOWN)
    await drain(sf)
    assert ((await job_of(sf, receipt.id)).result, sorted(asked)) == ("done", ["a", "a", "b", "b"])
