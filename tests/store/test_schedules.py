"""Ticks in the store: one job for each, whoever comes first, in one transaction with what comes next."""

from __future__ import annotations

from collections import Counter

import pytest

from standfast.application.wings import store_at
from standfast.rules import QueueRules
from standfast.store.store import Store
from standfast.wings.jobs import scripts as operations
from standfast.wings.notices.journal import journal
from standfast.wings.schedules import scripts as schedules
from standfast.wings.schedules.scripts import NextRun, PauseRequest, Schedule, ScheduleUpsert, TickDecision
from standfast.wings.schedules.ticking import Spec, decide_tick, first_run, spec_of
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import claim_one, claimed, ended, failed, publish, seen


async def scheduled(store: Store, name: str = "nightly", **asked) -> Schedule:
    """Store a schedule; give it."""
    asked = asked or {"every": 60.0}
    spec = Spec(queue="mail", handler="mail", payload="{}", details="{}", **asked)
    now, wall = store.times()
    put = ScheduleUpsert(
        name=name,
        queue="mail",
        spec=spec.text,
        timing=spec.timing,
        by="alex",
        anchor=now,
        following=first_run(spec, now, wall),
    )
    await store.write(schedules.put, put)
    return await known(store, name)


async def known(store: Store, name: str = "nightly") -> Schedule:
    found = await store.read(schedules.one(name))
    assert found is not None
    return found


async def planned(store: Store) -> list[TickDecision]:
    return [decide_tick(each, *store.times()) for each in await store.read(schedules.due(*store.times()))]


async def jobs(store: Store) -> list[str]:
    return [claim.id for claim in await claimed(store, slots=99)]


async def test_a_tick_of_which_two_workers_made_a_plan_is_written_once(store, clock):
    await scheduled(store)
    clock.advance(60)
    first, second = await planned(store), await planned(store)
    assert await store.write_all(schedules.tick, first) == [True]
    assert await store.write_all(schedules.tick, second) == [False]
    assert await jobs(store) == [first[0].runs[0][1].id]
    assert (await known(store)).runs == 1


async def test_the_job_the_tick_and_the_next_run_are_one_transaction(store, clock, look):
    before = await scheduled(store)
    clock.advance(60)
    [plan] = await planned(store)
    await store.write_all(schedules.tick, [plan])
    after = await known(store)
    assert before.next_at is not None
    assert after.next_at == before.next_at + 60
    assert look("SELECT schedule, tick, job FROM tick") == [("nightly", before.next_at, plan.runs[0][1].id)]
    assert after.last_job == plan.runs[0][1].id


async def test_a_plan_for_what_was_changed_paused_or_removed_since_is_not_carried_out(store, clock):
    await scheduled(store)
    clock.advance(60)
    old = await planned(store)
    await scheduled(store, every=60.0, priority=5)
    assert await store.write_all(schedules.tick, old) == [False]
    current = await planned(store)
    await store.write(
        schedules.pause, PauseRequest("nightly", (await known(store)).timing, paused=True, following=NextRun())
    )
    assert await store.write_all(schedules.tick, current) == [False]
    await store.write(schedules.remove, "nightly")
    assert await store.write_all(schedules.tick, current) == [False]
    assert await jobs(store) == []


async def test_a_tick_that_ran_is_known_by_its_time(store, clock):
    """It was removed and added again, or its clock was set back: what ran stays known."""
    at = {"at": clock.wall() + 10}
    await scheduled(store, **at)
    clock.advance(10)
    assert await store.write_all(schedules.tick, await planned(store)) == [True]
    await store.write(schedules.remove, "nightly")
    again = await scheduled(store, **at)
    assert again.next_wall == at["at"]
    assert await store.write_all(schedules.tick, await planned(store)) == [True]
    assert (await known(store)).ended_at is not None
    assert len(await jobs(store)) == 1


async def test_a_tick_that_finds_no_room_is_decided_anew(store, clock):
    publish(store, mail=QueueRules(max_depth=1))
    before, start = await scheduled(store, missed="all", every=60.0, overlap=True), store.times()[1]
    clock.advance(180)
    assert await store.write_all(schedules.tick, await planned(store)) == [False]
    assert (await known(store)).following == before.following
    [claim] = await claimed(store, slots=9)
    clock.advance(1)
    for number in (2, 3):
        assert await store.write_all(schedules.tick, await planned(store)) == [number == 3]
        last = (await known(store)).last_tick
        assert last is not None
        assert round(last - start) == number * 60, "the last that ran, not the last that was due"
        assert await ended(store, claim, failed())
        [claim] = await claimed(store, slots=9)
    found = await known(store)
    assert (found.runs, found.missed) == (3, 0)
    assert await store.read(schedules.due(*store.times())) == []


async def test_asking_for_the_same_again_writes_nothing(store, clock, look):
    first = await scheduled(store)
    clock.advance(30)
    told = look("SELECT count(*) FROM journal")
    assert await scheduled(store) == first
    assert look("SELECT count(*) FROM journal") == told


async def test_only_new_times_begin_anew(store, clock):
    first = await scheduled(store)
    clock.advance(30)
    other = await scheduled(store, every=60.0, priority=5)
    assert (other.anchor, other.next_at) == (first.anchor, first.next_at)
    assert spec_of(other.spec).priority == 5
    moved = await scheduled(store, every=90.0)
    assert moved.anchor == first.anchor + 30
    assert moved.next_at == first.anchor + 120


async def test_ticks_share_a_thread_and_one_that_waits_takes_the_next_in(store, clock):
    await scheduled(store)
    for _ in range(3):
        clock.advance(60)
        await store.write_all(schedules.tick, await planned(store))
    claim = await claim_one(store)
    assert claim.coalesced is not None
    assert claim.coalesced["count"] == 2
    assert claim.details.labels is not None
    assert claim.details.labels["tick"].endswith("00:03:00Z")
    clock.advance(60)
    await store.write_all(schedules.tick, await planned(store))
    assert await claimed(store, slots=9) == []  # it runs; the next one waits for its thread
    found = await known(store)
    assert (found.runs, found.coalesced) == (4, 2)


async def test_where_every_missed_run_counts_none_is_folded_or_superseded(store, clock):
    await scheduled(store, every=60.0, missed="all")
    clock.advance(180)
    [plan] = await planned(store)
    await store.write_all(schedules.tick, [plan])
    claim = await claim_one(store)
    assert await ended(store, claim, failed())  # two newer ones wait, and it goes back to its queue all the same
    assert (await seen(store, claim.id)).state == "queued"
    ids = [job.id for _, job in plan.runs]
    assert claim.id == ids[0]
    assert [(await seen(store, each)).state for each in ids] == ["queued"] * 3


async def test_callers_cannot_have_a_key_of_the_schedules(store, clock):
    await scheduled(store)
    clock.advance(60)
    [plan] = await planned(store)
    key = plan.runs[0][1].thread_key
    assert key is not None
    assert not key.isprintable()  # which is what a caller's key must be


async def test_what_is_late_is_told(store, clock):
    await scheduled(store)
    await scheduled(store, "cron", cron="* * * * *")
    clock.advance(121)
    now, wall = store.times()
    assert [(name, overdue) for name, _, overdue, _ in await store.read(schedules.late(now, wall, 60.0))] == [
        ("cron", 61),
        ("nightly", 61),
    ]
    assert await store.read(schedules.late(now, wall, 61.5)) == []
    await store.write(operations.pause, ("mail", True))
    assert await store.read(schedules.until_next(*store.times())) == pytest.approx(-61)


async def test_old_ticks_and_what_is_long_over_are_pruned(store, clock, look):
    await scheduled(store)
    await scheduled(store, "once", at=clock.wall() + 5)
    clock.advance(60)
    await store.write_all(schedules.tick, await planned(store))
    clock.advance(7 * 86400)
    await store.write(upkeep.prune, PruneRequest())
    assert len(look("SELECT * FROM tick")) == 2
    clock.advance(1)
    await store.write(upkeep.prune, PruneRequest())
    assert look("SELECT * FROM tick") == []
    assert [each.name for each in await store.read(schedules.list_schedules())] == ["nightly", "once"]
    clock.advance(23 * 86400)
    await store.write(upkeep.prune, PruneRequest())
    assert [each.name for each in await store.read(schedules.list_schedules())] == ["nightly"]


async def test_four_processes_make_one_job_of_each_tick(shared_url, processes):
    store = store_at(shared_url)
    _, wall = store.times()
    names = [f"s{number}" for number in range(40)]
    for name in names:
        await scheduled(store, name, at=wall)
    children = [processes.ready("tick_all", shared_url) for _ in range(4)]
    for child in children:
        child.go()
    went = [child.hear()[0] for child in children]
    assert sum(went) == len(names)
    labels = [claim.details.labels or {} for claim in await claimed(store, slots=99)]
    assert Counter(each["schedule"] for each in labels) == Counter(names)
    told = "".join(row.entries for row in await journal(store, 0, 1000))
    assert (told.count('"shared"'), told.count("schedule_changed")) == (1, 0)  # all added it, and one did
    store.close()
