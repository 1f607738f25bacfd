"""Queue time on SQLite: it goes on where it stood, whatever the wall clock and the machine do."""

from __future__ import annotations

import pytest

from standfast import clock as clock_module
from standfast.application.wings import store_at
from standfast.clock import UNKNOWN_BOOT
from standfast.spine import intake
from standfast.testing import FrozenClock
from standfast.wings.health import scripts as health_scripts
from standfast.wings.notices.journal import journal
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import EVERY, beat, claim_one, claimed, new_job, one, seen, sweep, swept

DAY = 86400.0


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "queue.db")


def opened(path, clock):
    store = store_at(path, clock)
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
async def test_queue_time_never_falls_though_the_journal_is_old(path, clock, last):
    """Nothing was told for days and the journal is pruned but for its newest row; then the machine boots, set back."""
    store = opened(path, clock)
    waiting = await one(store, delay=DAY)
    clock.advance(3 * DAY)
    await store.write(upkeep.prune, PruneRequest())
    [newest] = await journal(store, 0, 10)
    assert newest.at < store.now() - 2 * DAY
    clock.advance(60)
    match last:
        case "sweep":
            await sweep(store)
        case "beat":
            beat(store)
        case "prune":
            await store.write(upkeep.prune, PruneRequest())
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
    await store.write_all(intake.enqueue, [job])
    beat(store, "since")
    await claim_one(store, worker="since")
    for _ in range(5):
        clock.advance(EVERY)
        beat(store, "since")
        assert (await sweep(store)).lapsed == []
    store.close()


async def test_at_is_a_moment_of_the_wall_clock(path, clock):
    store = opened(path, clock)
    clock.jump_wall(3600)  # the machine's wall clock now runs an hour before the queue's
    job_id = await one(store, at=clock.wall() + 60)
    clock.advance(59)
    assert await claimed(store) == []
    clock.advance(1)
    assert (await claim_one(store)).id == job_id
    store.close()


async def test_a_running_job_of_an_earlier_boot_is_silent(path, clock):
    store = opened(path, clock)
    await one(store, lease=1e6)
    beat(store)
    await claim_one(store)
    clock.advance(2 * EVERY + 1)
    beat(store)
    assert (
        await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0, unmoved_for=2 * EVERY))
    ).silent == {}
    clock.reboot()  # queue time is not set anew here: only the boot counts
    clock.advance(2000)
    assert (
        await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0, unmoved_for=2 * EVERY))
    ).silent == {"mail": 1}
    store.close()


class Nameless(FrozenClock):
    """The clock of a machine that does not say which boot it is."""

    def boot(self) -> str:
        return UNKNOWN_BOOT


async def test_a_machine_that_names_no_boot_goes_on_where_queue_time_stood(path):
    before = Nameless()
    before.advance(100_000)
    store = opened(path, before)
    await one(store, delay=1.0)
    stood = store.now()
    store.close()
    after = Nameless()  # up for a moment only, while the wall clock went on
    after.jump_wall(100_010)
    store = opened(path, after)
    assert store.now() == stood + 10
    after.advance(60)
    store.close()
    store = opened(path, after)
    assert store.now() == stood + 70, "no reboot this time"
    store.close()


def test_the_kernel_names_the_boot_or_sysctl_does(tmp_path, monkeypatch):
    monkeypatch.setattr(clock_module, "BOOT_ID", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clock_module.boot_id() == UNKNOWN_BOOT
    sysctl = tmp_path / "sysctl"
    sysctl.write_text('#!/bin/sh\n[ "$2" = kern.boot_id ] && echo 1-2-3 || exit 1\n')
    sysctl.chmod(0o700)
    assert clock_module.boot_id() == "1-2-3"
