"""Schedules among processes on one server: who has the row ticks, and of two that add one the second finds it."""

from __future__ import annotations

import asyncio

import pytest

from standfast.store.store import Store
from standfast.wings.schedules import scripts as schedules
from standfast.wings.schedules.scripts import NextRun, ScheduleUpsert
from tests.postgres import connect
from tests.store.test_schedules import jobs, known, planned, scheduled
from tests.waiting import seen


@pytest.fixture
def url(used_postgres_url: str) -> str:
    return used_postgres_url


async def test_a_schedule_that_somebody_ticks_is_left_to_them_without_waiting(store: Store, clock, url):
    await scheduled(store)
    clock.advance(60)
    plan = await planned(store)
    with connect(url) as other, other.transaction():
        other.execute("SELECT 1 FROM schedule FOR UPDATE")
        assert await asyncio.wait_for(store.write_all(schedules.tick, plan), 3) == [False]
    assert await store.write_all(schedules.tick, plan) == [True]
    assert len(await jobs(store)) == 1


async def test_who_adds_what_somebody_is_just_adding_waits_and_finds_it(store: Store, url):
    await scheduled(store, "template")
    row = await known(store, "template")
    put = ScheduleUpsert(
        name="s",
        queue="mail",
        spec=row.spec,
        timing=row.timing,
        by="ann",
        anchor=row.anchor + 1,
        following=NextRun(at=1.0),
    )
    with connect(url) as other, connect(url) as looking:
        with other.transaction():
            other.execute("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' schedule:s', 57))")
            other.execute(
                "INSERT INTO schedule (name, queue, spec, timing, added_by, anchor, next_at)"
                " SELECT 's', queue, spec, timing, added_by, anchor, next_at FROM schedule WHERE name = 'template'"
            )
            adding = store.write(schedules.put, put).start()
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
            await seen(lambda: looking.execute(waits).fetchall() != [(0,)], within=4)
        assert await adding == "unchanged"
    assert (await known(store, "s")).anchor == row.anchor
