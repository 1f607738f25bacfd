"""A thread keeps every job in order; folding is asked for, by the queue or by the call."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, Job, Transient
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.ingest.arrival import Arrival
from standfast.wings.ingest.verbs import _enqueued
from tests.waiting import job_of

THREAD: dict[str, Any] = {"thread_key": "order:7"}


def recorded(sf: InMemory) -> list[Any]:
    """Declare a handler that writes down what it ran."""
    ran: list[Any] = []
    sf.handler("mail")(lambda job: ran.append(job.payload))
    return ran


async def test_a_thread_key_alone_keeps_every_job_in_order(sf: InMemory):
    ran = recorded(sf)
    receipts = [await sf.enqueue("mail", number, **THREAD) for number in range(5)]
    assert [receipt.outcome for receipt in receipts] == ["accepted"] * 5
    await drain(sf)
    assert ran == [0, 1, 2, 3, 4]


async def test_the_call_can_ask_for_folding(sf: InMemory):
    ran = recorded(sf)
    outcomes = [(await sf.enqueue("mail", number, **THREAD, coalesce="latest")).outcome for number in range(5)]
    assert outcomes == ["accepted", *["coalesced"] * 4]
    await drain(sf)
    assert ran == [4]


async def test_the_call_goes_before_the_rule_of_its_queue(sf: InMemory):
    sf.queue("mail", coalesce="latest")
    ran = recorded(sf)
    outcomes = [(await sf.enqueue("mail", number, **THREAD, coalesce="never")).outcome for number in range(3)]
    assert outcomes == ["accepted"] * 3
    await drain(sf)
    assert ran == [0, 1, 2]


async def test_what_must_be_kept_is_never_folded_into_and_not_overtaken(sf: InMemory):
    """The newest waiting job is one to keep: folding into the older one would bring the newcomer before it."""
    ran = recorded(sf)
    await sf.enqueue("mail", "old", **THREAD, coalesce="latest")
    await sf.enqueue("mail", "kept", **THREAD)
    assert (await sf.enqueue("mail", "new", **THREAD, coalesce="latest")).outcome == "accepted"
    await drain(sf)
    assert ran == ["old", "kept", "new"]


@pytest.mark.parametrize(("first", "then", "state"), [("latest", "latest", "cancelled"), (None, "latest", "queued")])
async def test_a_job_that_waits_for_a_repeat_makes_way_only_if_it_may(sf: InMemory, first, then, state):
    sf.queue("mail", backoff=lambda _: 600)

    @sf.handler("mail")
    async def mail(_job: Job) -> None:
        raise Transient("later")

    older = await sf.enqueue("mail", 1, **THREAD, coalesce=first)
    await drain(sf)
    await sf.enqueue("mail", 2, **THREAD, coalesce=then)
    assert (await job_of(sf, older.id)).state == state


@pytest.mark.parametrize(("first", "state"), [("latest", "cancelled"), (None, "queued")])
async def test_a_running_job_makes_way_when_it_would_return_only_if_it_may(sf: InMemory, first, state):
    sf.queue("mail", backoff=lambda _: 600)

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        if job.payload == 1:
            await sf.enqueue("mail", 2, **THREAD, coalesce="latest", delay=60)
            raise Transient("later")

    older = await sf.enqueue("mail", 1, **THREAD, coalesce=first)
    await drain(sf)
    assert (await job_of(sf, older.id)).state == state


async def test_the_call_can_collect(sf: InMemory):
    ran = recorded(sf)
    for number in range(3):
        await sf.enqueue("mail", number, **THREAD, coalesce="collect")
    await drain(sf)
    assert ran == [[0, 1, 2]]


async def test_a_fold_without_a_thread_and_a_misspelt_one_are_refused(sf: InMemory):
    with pytest.raises(ConfigurationError, match="add thread_key="):
        await sf.enqueue("mail", 1, coalesce="latest")
    with pytest.raises(ConfigurationError, match="latest"):
        await sf.enqueue("mail", 1, **THREAD, coalesce="lastest")  # type: ignore[arg-type]
    assert await sf.jobs() == []


async def test_many_callers_at_once_are_kept_every_one(sf: InMemory):
    ran = recorded(sf)
    await asyncio.gather(*(sf.enqueue("mail", number, **THREAD) for number in range(20)))
    await drain(sf)
    assert sorted(ran) == list(range(20))


# --- where only the newest counts


async def test_ticks_that_wait_are_one_job_unless_the_schedule_says_otherwise(sf: InMemory):
    sf.handler("mail")(print)
    keeps: dict[str, Any] = {"coalesce": "never"}
    for name, options in (("folds", {}), ("keeps", keeps)):
        await sf.schedules.add(name, "mail", every=60, handler=name, **options)
    for _ in range(3):
        sf.clock.advance(60)
        await sf.worker().run_due()
    jobs = [job.handler for job in await sf.jobs()]
    assert (jobs.count("folds"), jobs.count("keeps")) == (1, 3)
    [options] = [each["options"] for each in await sf.schedules.list() if each["name"] == "keeps"]
    assert options["coalesce"] == "never"


@pytest.mark.parametrize(("rules", "outcome"), [({}, "coalesced"), ({"coalesce": "collect"}, "coalesced")])
async def test_events_of_one_pull_request_are_one_job(sf: InMemory, rules, outcome):
    sf.queue("github", **rules)
    arrivals = [
        Arrival(queue="github", payload=number, key=f"k{number}", thread_key="github:o/r#7", newest_counts=True)
        for number in range(2)
    ]
    answers = [(await _enqueued(sf, "github", arrival))[1]["outcome"] for arrival in arrivals]
    assert answers == ["accepted", outcome]
    [job] = await sf.jobs()
    assert job.payload == ([0, 1] if rules else 1)


async def test_a_source_may_keep_every_event(sf: InMemory):
    kept = Arrival(queue="github", payload=0, thread_key="github:o/r#7", newest_counts=True, coalesce="never")
    for number in range(2):
        await _enqueued(sf, "github", msgspec.structs.replace(kept, payload=number, key=f"k{number}"))
    assert len(await sf.jobs()) == 2
