"""`total`: slots of a worker over all its queues, beside those of each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast import ConfigurationError
from standfast.spine.claim_requests import QueueDemand
from standfast.worker.total_slots import TotalSlots
from tests.waiting import ended, seen

QUEUES = ("a", "b", "c")


async def test_no_more_than_total_run_at_once_and_every_queue_has_its_turn(disk):
    running: list[Any] = []
    most: list[int] = []
    order: list[str] = []

    async def handle(job):
        running.append(job)
        most.append(len(running))
        order.append(job.queue)
        await asyncio.sleep(0.002)
        running.remove(job)

    for queue in QUEUES:
        disk.handler(queue)(handle)
    jobs = [each for queue in QUEUES for each in await disk.enqueue_many(queue, range(12))]
    async with disk.worker(total=2):
        for job in jobs:
            assert (await ended(disk, job.id)).state == "completed"
    assert max(most) == 2
    assert set(order[:6]) == set(QUEUES), "no queue waits until another is empty"


async def test_an_idle_worker_with_fewer_slots_than_queues_takes_up_whatever_comes(disk):
    ran: list[str] = []
    for queue in QUEUES:
        disk.handler(queue)(lambda job: ran.append(job.queue))
    async with disk.worker(total=1):
        for queue in (*QUEUES, *reversed(QUEUES)):
            job = await disk.enqueue(queue)
            assert (await ended(disk, job.id)).state == "completed"
    assert ran == [*QUEUES, *reversed(QUEUES)]


async def test_slots_that_are_free_again_are_used_by_others(disk):
    go, begun = asyncio.Event(), asyncio.Event()

    @disk.handler("slow")
    async def slow(_job):
        begun.set()
        await go.wait()

    disk.handler("quick")(lambda _job: None)
    async with disk.worker(total=2, concurrency=1):
        first = await disk.enqueue("slow")
        await begun.wait()
        second = await disk.enqueue("slow")
        quick = [await disk.enqueue("quick") for _ in range(5)]
        for each in quick:
            await ended(disk, each.id)
        go.set()
        assert [(await ended(disk, each.id)).state for each in (first, second)] == ["completed"] * 2


@pytest.mark.parametrize(
    ("free", "wanted", "given"),
    [
        (10, {"a": 3, "b": 4}, {"a": 3, "b": 4}),
        (4, {"a": 64, "b": 64}, {"a": 2, "b": 2}),
        (5, {"a": 1, "b": 64}, {"a": 1, "b": 4}),
        (1, {"a": 64, "b": 64}, {"a": 1}),
        (0, {"a": 64}, {}),
        (-1, {"a": 64}, {}),
    ],
)
def test_free_slots_are_shared_and_never_overdrawn(free, wanted, given):
    slots = TotalSlots(free)
    shared = slots.share([QueueDemand(queue, (), number) for queue, number in wanted.items()])
    assert {each.queue: each.slots for each in shared} == given


def test_a_process_claims_no_more_than_what_remains_until_it_starts_anew():
    slots = TotalSlots(200)
    demands = [QueueDemand(queue, (), 64) for queue in QUEUES]
    assert sum(each.slots for each in slots.share(demands)) == 192
    slots.end_after(70)
    assert sum(each.slots for each in slots.share(demands)) == 70
    slots.claimed = slots.freed = 69
    assert sum(each.slots for each in slots.share(demands)) == 1
    slots.claimed += 1
    assert slots.share(demands) == []


def test_who_was_left_out_comes_first_next_time():
    slots = TotalSlots(1)
    demands = [QueueDemand(queue, (), 64) for queue in QUEUES]
    assert [slots.share(demands)[0].queue for _ in range(6)] == [*QUEUES, *QUEUES]


async def test_no_slot_at_all_is_refused(disk):
    with pytest.raises(ConfigurationError, match="total must be at least 1"):
        disk.worker(total=0)


async def test_hints_that_come_while_all_slots_are_taken_are_not_forgotten(disk):
    go, begun = asyncio.Event(), asyncio.Event()

    @disk.handler("slow")
    async def slow(_job):
        begun.set()
        await go.wait()

    done: list[str] = []
    disk.handler("quick")(lambda _job: done.append("quick"))
    async with disk.worker(total=1):
        await disk.enqueue("slow")
        await begun.wait()
        await disk.enqueue("quick")
        go.set()
        await seen(lambda: done)
