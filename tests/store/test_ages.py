"""Growing too old: `max_age` counts from the entry into the queue, `expires` is a moment; a running job is let be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from standfast.outcome import Lapsed, NotEntered
from standfast.rules import DEFAULTS, QueueRules
from standfast.spine.apply import apply
from standfast.wings.queues import ages, publishing
from standfast.wings.queues import scripts as queue_scripts
from standfast.worker.settling import too_old
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest
from tests.store.suite import (
    catch,
    claim_one,
    claimed,
    ended,
    enqueued,
    failed,
    journal,
    new_job,
    one,
    publish,
    seen,
    states,
    sweep,
    swept,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = QueueRules(max_age=60.0)
MARKS = "SELECT name FROM upkeep WHERE name LIKE 'age %'"


async def died(store, job_id):
    """Sweep as a worker does; give why a job died, or its state."""
    await swept(store)
    view = await seen(store, job_id)
    return view.reason if view.state == "dead" else view.state


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ((MINUTE, None), "max_age"),
        ((DEFAULTS, 60.0), "expired"),
        ((MINUTE, 60.0), "max_age"),
        ((MINUTE, 600.0), "max_age"),
    ],
)
async def test_a_job_dies_in_the_queue_when_its_time_is_over(store, clock, look, limit, reason):
    rules, expires = limit
    publish(store, mail=rules)
    job_id = await one(store, expires=None if expires is None else clock.wall() + expires)
    clock.advance(59.999)
    assert await died(store, job_id) == "queued"
    clock.advance(0.001)
    assert await died(store, job_id) == reason
    view = await seen(store, job_id)
    assert (view.attempts, view.finished_at) == (0, START + timedelta(seconds=60))
    assert view.failure is not None
    assert (view.failure.cls, view.failure.landed) == ("permanent", "no")
    assert view.triage is not None
    assert journal(look("SELECT entries FROM journal"))[-1] == [("dead_letter", "mail", [job_id])]


async def test_the_caller_may_want_it_sooner_than_the_queue_allows(store, clock):
    publish(store, mail=MINUTE)
    job_id = await one(store, expires=clock.wall() + 30)
    clock.advance(30)
    assert await died(store, job_id) == "expired"


async def test_a_job_that_came_too_late_is_not_run(store, clock):
    """The sweeper has not looked yet: the claim carries what the worker decides by."""
    publish(store, mail=MINUTE)
    job_id = await one(store)
    clock.advance(60)
    caught = await catch(store)
    [claim] = caught.claims
    end = too_old(claim, caught.rules["mail"], claim.claimed_at)
    assert end is not None
    assert await store.write_all(apply, [end]) == [True]
    view = await seen(store, job_id)
    assert (view.state, view.reason, view.attempts) == ("dead", "max_age", 0)


async def test_an_absolute_expiry_reaches_the_claim(store, clock):
    await one(store, expires=clock.wall() + 30)
    clock.advance(30)
    claim = await claim_one(store)
    end = too_old(claim, DEFAULTS, claim.claimed_at)
    assert end is not None
    assert end.failure is not None
    assert end.failure.reason_code == "expired"


async def test_a_running_job_never_grows_too_old(store, clock):
    publish(store, mail=MINUTE)
    job_id = await one(store)
    claim = await claim_one(store)
    clock.advance(3600)
    assert (await sweep(store)).expired == []
    assert await died(store, job_id) == "running"
    await ended(store, claim, NotEntered("x"))
    assert await died(store, job_id) == "max_age"


async def test_a_delayed_job_grows_old_too(store, clock):
    publish(store, mail=MINUTE)
    job_id = await one(store, delay=3600.0)
    clock.advance(60)
    assert await died(store, job_id) == "max_age"


async def test_a_repeat_does_not_make_a_job_young_again(store, clock):
    """The age counts from the entry into the queue; a failed attempt is no new entry."""
    publish(store, mail=MINUTE)
    job_id = await one(store)
    clock.advance(50)
    await ended(store, await claim_one(store), failed())
    assert (await seen(store, job_id)).last_entered_at == START
    clock.advance(10)
    assert await died(store, job_id) == "max_age"


async def test_a_wall_clock_that_jumps_ages_nothing(store, clock):
    publish(store, mail=MINUTE)
    job_id = await one(store)
    clock.jump_wall(3600)
    assert await died(store, job_id) == "queued"


async def test_rules_published_later_hold_for_what_waits(store, clock):
    waiting, running = await one(store), None
    running = await one(store, "chat")
    claim = await claim_one(store, "chat")
    publish(store, mail=MINUTE, chat=MINUTE)
    assert (await seen(store, waiting)).expires_at == START + timedelta(seconds=60)
    clock.advance(59)
    assert await died(store, waiting) == "queued"
    clock.advance(1)
    assert await died(store, waiting) == "max_age"
    await ended(store, claim, Lapsed())
    assert await died(store, running) == "max_age"


async def test_rules_published_later_reach_every_job_in_bites(store, clock, monkeypatch, look):
    """Many jobs wait, other queues' among them; no transaction looks at more than a bite."""
    monkeypatch.setattr(ages, "BITE", 3)
    jobs = await enqueued(store, *(new_job() for _ in range(7)), new_job("chat"), *(new_job() for _ in range(4)))
    publish(store, mail=MINUTE)
    clock.advance(60)
    assert await died(store, jobs[0]) == "max_age"
    assert set(await states(store, *jobs[:7], *jobs[8:])) == {"dead"}
    assert await states(store, jobs[7]) == ["queued"]
    assert look(MARKS) == []


async def test_what_a_publisher_leaves_undone_the_sweepers_do(store, clock, monkeypatch, look):
    monkeypatch.setattr(ages, "BITE", 3)
    jobs = await enqueued(store, *(new_job() for _ in range(7)))
    with monkeypatch.context() as hurried:
        hurried.setattr(publishing, "publish", publish_only)
        publish(store, mail=MINUTE)
    assert look(MARKS) == [("age 0 mail",)]
    clock.advance(60)
    await Sweeper(store, SweepRequest(every=10.0, patience=10.0)).sweep()
    await Sweeper(store, SweepRequest(every=10.0, patience=10.0)).sweep()
    assert set(await states(store, *jobs)) == {"dead"}
    assert look(MARKS) == []


async def test_rules_published_while_others_are_stamped_win(store, clock, monkeypatch):
    """A second publication begins anew, also for those that the first had already stamped."""
    monkeypatch.setattr(ages, "BITE", 3)
    jobs = await enqueued(store, *(new_job() for _ in range(7)))
    with monkeypatch.context() as hurried:
        hurried.setattr(publishing, "publish", publish_only)
        publish(store, mail=MINUTE)
        assert await store.write(ages.restamp, None)
        publish(store, mail=DEFAULTS)
    while await store.write(ages.restamp, None):
        pass
    clock.advance(60)
    await Sweeper(store, SweepRequest(every=10.0, patience=10.0)).sweep()
    assert set(await states(store, *jobs)) == {"queued"}


def publish_only(store, publication):
    """Put declarations in force as a process does that dies right after."""
    store.write(queue_scripts.publish, publication).result()


@pytest.mark.parametrize("later", [QueueRules(max_age=3600.0), DEFAULTS])
async def test_a_limit_that_was_lifted_no_longer_holds(store, clock, later):
    publish(store, mail=MINUTE)
    plain, limited = await enqueued(store, new_job(), new_job(expires=clock.wall() + 90))
    publish(store, mail=later)
    clock.advance(60)
    assert await died(store, plain) == "queued"
    clock.advance(30)
    assert await died(store, limited) == "expired"
    assert await states(store, plain) == ["queued"]


async def test_a_limit_of_one_queue_is_none_of_another(store, clock):
    publish(store, mail=MINUTE)
    old, other = await one(store), await one(store, "chat")
    clock.advance(60)
    assert [await died(store, job_id) for job_id in (old, other)] == ["max_age", "queued"]
    assert [claim.id for claim in await claimed(store, "chat")] == [other]


async def test_publishing_the_same_rules_again_changes_nothing(store, clock):
    publish(store, mail=MINUTE)
    job_id = await one(store)
    clock.advance(30)
    publish(store, mail=MINUTE)
    clock.advance(30)
    assert await died(store, job_id) == "max_age"


async def test_a_sweep_finds_a_bounded_number_and_the_next_the_rest(store, clock):
    publish(store, mail=MINUTE)
    ids = await enqueued(store, *(new_job() for _ in range(250)))
    clock.advance(60)
    found = await sweep(store)
    assert (len(found.expired), found.expired[0].max_age, found.expired[0].queue) == (200, 60.0, "mail")
    await swept(store)
    assert set(await states(store, *ids)) == {"dead"}
