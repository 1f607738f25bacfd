"""Queue time on SQLite: it goes on where it stood, whatever the wall clock and the machine do."""

from __future__ import annotations

import pytest

from standfast.store.store import Store
from standfast.store.upkeep import Prune
from standfast.testing import FrozenClock
from tests.store.suite import EVERY, beat, claim_one, new_job, one, seen, sweep, swept

DAY = 86400.0


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "queue.db")


def opened(path, clock):
    store = Store(path, clock)
    store.open()
    return store


async def test_a_new_file_starts_at_wall_time(path, clock):
    store = opened(path, clock)
    assert store.now() == clock.wall()
    clock.advance(5)
    assert (store.now(), store.skew()) == (clock.wall(), 0.0)
    store.close()


async def test_a_wall_clock_that_jumps_does_not_move_queue_time(path, clock):
    store = opened(path, clock)
    before = store.now()
    clock.jump_wall(-3600)
    assert (store.now(), store.skew()) == (before, -3600.0)
    store.close()
    store = opened(path, clock)
    assert (store.now(), store.skew()) == (before, -3600.0)
    store.close()


@pytest.mark.parametrize("jump", [0.0, 3600.0, -3600.0, -100 * DAY])
async def test_queue_time_never_falls_at_a_boot(path, clock, jump):
    store = opened(path, clock)
    await one(store)
    before = store.now()
    store.close()
    clock.reboot()
    clock.jump_wall(jump)
    store = opened(path, clock)
    assert store.now() == max(before, clock.wall())
    store.close()


@pytest.mark.parametrize("last", ["prune", "sweep", "beat"])
async def test_queue_time_never_falls_though_the_journal_is_empty(path, clock, last):
    """Nothing was told for days and the journal is pruned away; then the machine boots with a clock set back."""
    store = opened(path, clock)
    waiting = await one(store, delay=DAY)
    clock.advance(3 * DAY)
    await store.prune(Prune())
    assert await store.last_journal_number() == 0
    clock.advance(60)
    match last:
        case "sweep":
            await sweep(store)
        case "beat":
            beat(store)
        case "prune":
            await store.prune(Prune())
    before = store.now()
    store.close()
    clock.reboot()
    clock.jump_wall(-100 * DAY)
    store = opened(path, clock)
    assert store.now() >= before
    assert (await claim_one(store)).id == waiting
    store.close()


async def test_two_processes_of_one_boot_have_one_time(path):
    """The second opens later and with another idea of the wall; both count from the same boot."""
    first = FrozenClock()
    store = opened(path, first)
    first.advance(100)
    before = store.now()
    store.close()
    second = FrozenClock()
    second.advance(100)
    second.jump_wall(5000)
    store = opened(path, second)
    assert store.now() == before
    store.close()


async def test_a_new_boot_lapses_every_lease_at_once(path, clock):
    """Whoever held a job before the boot is gone for certain: nobody waits for a lease, or for patience."""
    store = opened(path, clock)
    job_id = await one(store)
    beat(store)
    await claim_one(store)
    store.close()
    clock.reboot()
    store = opened(path, clock)
    assert [claim.id for claim in (await sweep(store)).lapsed] == [job_id]
    await swept(store)
    view = await seen(store, job_id)
    assert (view.state, view.reason) == ("queued", "worker_lost")
    store.close()


async def test_a_new_boot_lapses_nothing_that_was_claimed_since(path, clock):
    store = opened(path, clock)
    beat(store, "before")
    store.close()
    clock.reboot()
    store = opened(path, clock)
    job = new_job()
    await store.enqueue([job])
    beat(store, "since")
    await claim_one(store, worker="since")
    for _ in range(5):
        clock.advance(EVERY)
        beat(store, "since")
        assert (await sweep(store)).lapsed == []
    store.close()
