"""Pruning: what is no longer needed goes, in bounded bites; what somebody may need stays."""

from __future__ import annotations

import pytest

from standfast.failure import Class, Landed
from standfast.outcome import Cancel, Succeeded
from standfast.rules import QueueRules
from standfast.wings.health import scripts as health_scripts
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.records import reads
from standfast.worker import upkeep
from standfast.worker.pruner import Pruner
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import beat, claim_one, claimed, ended, enqueued, everything, failed, new_job, one, publish, seen

HOUR, DAY = 3600.0, 86400.0
KEYS = (("waits", 1e9), ("runs", 0.0), ("repeats", 0.0))


async def done(store, queue="mail", outcome=None, **given):
    job_id = await one(store, queue, **given)
    await ended(store, await claim_one(store, queue), outcome or Succeeded("1"))
    return job_id


async def pruned(store):
    await Pruner(store).prune()


@pytest.mark.parametrize("outcome", [Succeeded("1"), Cancel("why")], ids=["completed", "cancelled"])
async def test_a_finished_job_is_kept_for_a_day(store, clock, outcome):
    job_id = await done(store, outcome=outcome)
    clock.advance(DAY)
    await pruned(store)
    assert (await seen(store, job_id)).settled
    clock.advance(0.001)
    await pruned(store)
    assert await store.read(reads.job(job_id, store.boot())) is None


async def test_nothing_of_a_pruned_job_is_left(store, clock, look):
    await one(store)
    await ended(store, await claim_one(store), failed())
    clock.advance(5)
    await ended(store, await claim_one(store), Succeeded("1", "warned"))
    clock.advance(2 * DAY)
    await pruned(store)
    assert everything(look, "job", "body", "ending", "history") == [[], [], [], []]


async def test_how_long_is_a_rule_of_the_queue(store, clock):
    publish(store, brief=QueueRules(keep_completed=60.0), mail=QueueRules(), kept=QueueRules(keep_completed=None))
    ids = {queue: await done(store, queue) for queue in ("brief", "mail", "kept", "undeclared")}
    clock.advance(61)
    await pruned(store)
    assert [queue for queue, job_id in ids.items() if await store.read(reads.job(job_id, store.boot()))] == [
        "mail",
        "kept",
        "undeclared",
    ]
    clock.advance(1000 * DAY)
    await pruned(store)
    assert [queue for queue, job_id in ids.items() if await store.read(reads.job(job_id, store.boot()))] == ["kept"]


async def test_a_letter_and_its_history_are_never_pruned(store, clock):
    job_id = await one(store, budget=2, idempotency_key="k")
    for _ in range(2):
        await ended(store, await claim_one(store), failed(landed=Landed.MAYBE))
        clock.advance(5)
    before = await seen(store, job_id)
    clock.advance(1000 * DAY)
    await pruned(store)
    assert await seen(store, job_id) == before
    assert (before.state, len(before.history)) == ("dead", 2)


async def test_nothing_of_an_unfinished_job_is_pruned(store, clock, look):
    _, running, retrying = await enqueued(store, *(new_job(idempotency_key=key, delay=d) for key, d in KEYS))
    beat(store)
    claims = await claimed(store, slots=9)
    assert [claim.id for claim in claims] == [running, retrying]
    await ended(store, claims[1], failed())
    tables = ("job", "body", "history", "idempotency", "worker")
    before = everything(look, *tables)
    clock.advance(1000 * DAY)
    await pruned(store)
    assert everything(look, *tables) == before
    assert (await seen(store, running)).state == "running"


async def test_keys_go_when_their_week_is_over(store, clock, look):
    await done(store, idempotency_key="k")
    await one(store, idempotency_key="waiting")
    clock.advance(7 * DAY - 1)
    await pruned(store)
    assert look("SELECT key FROM idempotency ORDER BY key") == [("k",), ("waiting",)]
    clock.advance(1)
    await pruned(store)
    assert look("SELECT key FROM idempotency ORDER BY key") == [("waiting",)]


async def test_the_journal_is_kept_for_a_day(store, clock, look):
    await one(store)
    clock.advance(HOUR)
    await one(store)
    clock.advance(DAY - HOUR)
    await pruned(store)
    assert look("SELECT count(*) FROM journal") == [(2,)]
    clock.advance(1)
    await pruned(store)
    assert look("SELECT seq FROM journal") == [(2,)]
    assert await store.read(journal_scripts.last_journal_number()) == 2


async def test_the_journals_numbers_are_never_given_twice(store, clock):
    """Whoever follows the journal from a number must not meet that number again."""
    await one(store)
    clock.advance(2 * DAY)
    await pruned(store)
    assert await store.read(journal_scripts.last_journal_number()) == 1, (
        "whoever knows it is not taken for somebody of another store"
    )
    await one(store)
    assert await store.read(journal_scripts.last_journal_number()) == 2


async def test_silent_workers_go_after_an_hour_unless_they_hold_a_job(store, clock, look):
    await one(store)
    for worker in ("idle", "busy", "live"):
        beat(store, worker)
    await claim_one(store, worker="busy")
    clock.advance(HOUR)
    beat(store, "live")
    await pruned(store)
    assert look("SELECT count(*) FROM worker") == [(3,)]
    clock.advance(0.001)
    await pruned(store)
    assert look("SELECT id FROM worker ORDER BY id") == [("busy",), ("live",)]


async def test_numbers_of_pruned_jobs_are_never_given_again(store, clock):
    """A late worker's number must not hit somebody else's job."""
    job_id = await one(store)
    claim = await claim_one(store)
    await ended(store, claim, Succeeded())
    clock.advance(2 * DAY)
    await pruned(store)
    assert await store.read(reads.job(job_id, store.boot())) is None
    await one(store)
    assert (await claim_one(store)).n > claim.n


async def test_a_bite_is_bounded_and_tells_whether_there_is_more(store, clock):
    await enqueued(store, *(new_job() for _ in range(25)))
    for claim in await claimed(store, slots=25):
        await ended(store, claim, Succeeded())
    clock.advance(2 * DAY)
    bites = [await store.write(upkeep.prune, PruneRequest(limit=10)) for _ in range(4)]
    assert bites[-1] is False
    assert bites[:2] == [True, True]
    assert await claimed(store) == []


async def test_pruning_tells_when_it_was_done(store, clock):
    clock.advance(7)
    await store.write(upkeep.prune, PruneRequest())
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).upkeep[
        "prune"
    ] == store.now()


async def test_what_died_is_kept_beside_what_is_pruned(store, clock):
    ids = [await done(store, outcome=outcome) for outcome in (Succeeded(), failed(Class.PERMANENT), Cancel())]
    clock.advance(2 * DAY)
    await pruned(store)
    assert [bool(await store.read(reads.job(job_id, store.boot()))) for job_id in ids] == [False, True, False]
