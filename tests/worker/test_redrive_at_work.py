"""Redrives with real workers, and with many letters: a poisoned group halts by itself while the others finish."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import Standfast
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.worker import worker as worker_module
from tests.waiting import seen
from tests.worker.governing import Rulebook, broken, govern, redriver
from tests.worker.processes import Child, Log

QUEUES = ("mail", "feedback", "poisoned")


@pytest.mark.parametrize("number", [100, pytest.param(3334, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_a_poisoned_group_halts_while_the_others_finish(sf, number):
    failing = broken(sf, *QUEUES)
    govern(sf, Rulebook())
    for queue in QUEUES:
        for start in range(0, number, 1000):
            await sf.enqueue_many(queue, [{"n": n} for n in range(start, min(number, start + 1000))])
    await drain(sf)
    assert (await sf.stats())["total_dead_letter"] == 3 * number
    failing.difference_update({"mail", "feedback"})
    redrives = {queue: await started(sf, queue) for queue in QUEUES}
    states = await driven_to_the_end(sf, redrives)
    assert states == {"mail": "finished", "feedback": "finished", "poisoned": "halted"}
    progress = {queue: await redrive.progress() for queue, redrive in redrives.items()}
    assert [progress[queue]["completed"] for queue in QUEUES] == [number, number, 0]
    assert (progress["poisoned"]["failed"], progress["poisoned"]["waiting"]) == (5, number - 5)
    assert (await sf.stats())["total_dead_letter"] == number
    assert (await sf.audit.verify())["ok"]


async def started(sf: InMemory, queue: str) -> Any:
    plan = await sf.dead_letters.plan({"queue": queue})
    return await sf.dead_letters.redrive(plan["token"], by="olga", canary=5, halt_on=0.2)


async def driven_to_the_end(sf: InMemory, redrives: dict[str, Any]) -> dict[str, str]:
    """Take redrives on until none runs any more; give where each stands."""
    while await redriver(sf).step():
        await drain(sf)
    return {queue: (await redrive.progress())["state"] for queue, redrive in redrives.items()}


async def test_a_worker_takes_redrives_on_by_itself(sf, monkeypatch):
    monkeypatch.setattr(worker_module, "REDRIVE_EVERY", 0.01)
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    await sf.enqueue_many("mail", [{}] * 5)
    await drain(sf)
    failing.clear()
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", canary=1)
    async with sf.worker():
        await seen(lambda: _is(redrive, "finished"))
    assert (await redrive.progress())["completed"] == 5


async def _is(redrive: Any, state: str) -> bool:
    return bool((await redrive.progress())["state"] == state)


@pytest.mark.long
async def test_a_killed_driver_is_replaced_and_nothing_runs_twice(url: str, log: Log):
    rules = {"mail": {"attempts": 1}}
    async with Standfast(url) as starter:
        jobs = [{"name": f"job-{n}", "do": "fail"} for n in range(60)]
        await starter.enqueue_many("mail", jobs)
        first = Child(url, log, rules=rules)
        await seen(lambda: _dead(starter, 60))
        plan = await starter.dead_letters.plan()
        redrive = await starter.dead_letters.redrive(plan["token"], by="olga", rate="20/s")
        await seen(lambda: _released(redrive, 10))
        first.kill()
        first.end()
        second = Child(url, log, rules=rules)
        await seen(lambda: _is(redrive, "finished"), within=60)
        second.end()
        progress = await redrive.progress()
    starts = [line.name for line in log.lines()]
    assert sorted({name: starts.count(name) for name in starts}.values()) == [2] * 60
    assert (progress["failed"], progress["drifted"]) == (60, 0)


async def _dead(sf: Standfast, number: int) -> bool:
    return bool((await sf.stats())["total_dead_letter"] == number)


async def _released(redrive: Any, number: int) -> bool:
    progress = await redrive.progress()
    return bool(progress["waiting"] <= progress["letters"] - number)
