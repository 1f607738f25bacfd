"""Redrives with real workers, and with many letters: a poisoned group halts by itself while the others finish."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from standfast import Standfast
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.testing.nursery import nursery, reported
from standfast.worker import worker as worker_module
from tests.waiting import seen
from tests.worker import starting
from tests.worker.governing import Rulebook, broken, govern, redriver
from tests.worker.processes import Child, Log

QUEUES = ("mail", "feedback", "poisoned")


POLICY = """
version: v1
dlq_rules:
  - match: {queue: poisoned}
    action: manual_review
    owner: integration-team
  - match: {error_kind: validation}
    action: manual_review
replay_rules:
  - match: {queue: poisoned, replays: ">= 2"}
    decision: deny
  - match: {}
    decision: allow
"""
SECONDS_FOR_A_PLAN = 5.0


@pytest.mark.parametrize("number", [200, pytest.param(3334, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_letters_in_numbers_are_triaged_grouped_and_redriven_and_a_poisoned_group_halts(sf, number):
    failing = broken(sf, *QUEUES)
    sf.policy.load(POLICY)
    for queue in QUEUES:
        for start in range(0, number, 1000):
            await sf.enqueue_many(queue, [{"n": n} for n in range(start, min(number, start + 1000))])
    await drain(sf)
    groups = {group["queue"]: group for group in await sf.dead_letters.groups()}
    assert {queue: group["count"] for queue, group in groups.items()} == dict.fromkeys(QUEUES, number)
    triages = {queue: (await sf.dead_letters.get(groups[queue]["sample"])).triage for queue in QUEUES}
    said = {queue: (triage.rule, triage.owner) for queue, triage in triages.items() if triage}
    assert said["poisoned"] == ("dlq_rules#1", "integration-team")
    assert said["mail"] == said["feedback"] == ("dlq_rules#2", None)
    failing.difference_update({"mail", "feedback"})
    redrives = {queue: await started(sf, groups[queue]["fingerprint"], number) for queue in QUEUES}
    states = await driven_to_the_end(sf, redrives)
    assert states == {"mail": "finished", "feedback": "finished", "poisoned": "halted"}
    progress = {queue: await redrive.progress() for queue, redrive in redrives.items()}
    assert [progress[queue]["completed"] for queue in QUEUES] == [number, number, 0]
    assert (progress["poisoned"]["failed"], progress["poisoned"]["waiting"]) == (5, number - 5)
    [left] = await sf.dead_letters.groups()
    assert (left["count"], left["regressed"]) == (number, 5)
    assert (await sf.audit.verify())["ok"]


async def started(sf: InMemory, fingerprint: str, number: int) -> Any:
    before = time.process_time()
    plan = await sf.dead_letters.plan({"fingerprint": fingerprint})
    assert time.process_time() - before < SECONDS_FOR_A_PLAN
    assert (plan["letters"], plan["would_run"]) == (number, number)
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
@pytest.mark.timeout(150)  # its waits add up to more than the usual minute
async def test_a_killed_driver_is_replaced_and_nothing_runs_twice(url: str, log: Log):
    rules = {"mail": {"attempts": 1}}
    async with Standfast(url) as starter:
        jobs = [{"name": f"job-{n}", "do": "fail"} for n in range(60)]
        await starter.enqueue_many("mail", jobs)
        first = Child(url, log, rules=rules)
        await seen(lambda: _dead(starter, 60))
        await starter.queues.pause("mail")  # a job that its worker dies with may run once more, redriven or not
        plan = await starter.dead_letters.plan()
        redrive = await starter.dead_letters.redrive(plan["token"], by="olga", rate="20/s")
        await seen(lambda: _released(redrive, 10))
        first.kill()
        first.end()
        await starter.queues.resume("mail")
        second = Child(url, log, rules=rules)
        await seen(lambda: _is(redrive, "finished"), within=60)
        second.end()
        progress = await redrive.progress()
    starts = [line.name for line in log.lines()]
    assert sorted({name: starts.count(name) for name in starts}.values()) == [2] * 60
    assert (progress["failed"], progress["drifted"]) == (60, 0)


@pytest.mark.parametrize(
    ("course", "steps"),
    [
        pytest.param({"canary": 3, "halt_on": 0.2}, [("running", 3), ("halted", 3)], id="canary and halt"),
        pytest.param({"rate": 0.05}, [("running", 1), ("running", 1)], id="rate"),
    ],
)
async def test_a_redrive_whose_starter_was_killed_goes_on_in_any_worker_as_it_was_asked_for(
    disk, url, tmp_path, course, steps
):
    broken(disk, "mail")
    await disk.enqueue_many("mail", [{}] * 12)
    await drain(disk)
    with nursery("tests.worker.starting") as children:
        status = children.spawn(starting.start_and_die, url, tmp_path / "told", course).wait()
    assert status == -signal.SIGKILL
    redrive = await disk.dead_letters.redrives.get(reported(tmp_path / "told")[0]["redrive"], by="olga")
    for state, replayed in steps:
        await redriver(disk).step()
        progress = await redrive.progress()
        assert (progress["state"], 12 - progress["waiting"]) == (state, replayed)
        await drain(disk)
    assert {name: progress[name] for name in course} == course
    assert (await disk.audit.verify())["ok"]


async def _dead(sf: Standfast, number: int) -> bool:
    return bool((await sf.stats())["total_dead_letter"] == number)


async def _released(redrive: Any, number: int) -> bool:
    progress = await redrive.progress()
    return bool(progress["waiting"] <= progress["letters"] - number)
