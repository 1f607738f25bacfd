"""keep_dead: letters that a queue keeps no longer go by age or by count, and each going is recorded."""

from __future__ import annotations

import pytest

from standfast.failure import Class
from standfast.lifecycle import Move, State, Transition
from standfast.rules import QueueRules, Retention
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.store.scripts import writes
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import decisions_of
from standfast.wings.records import reads
from standfast.worker.pruner import Pruner
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import claim_one, ended, everything, failed, journal, new_job, one, publish

DAY = 86400.0


async def died(store, queue="mail", **given):
    job_id = await one(store, queue, **given)
    await ended(store, await claim_one(store, queue), failed(Class.PERMANENT))
    return job_id


async def left(store, *ids):
    return [job_id for job_id in ids if await store.read(reads.job(job_id, store.boot()))]


async def test_a_letter_is_kept_for_its_age(store, clock):
    publish(store, mail=QueueRules(keep_dead=Retention(age=DAY)))
    kept = await died(store, "chat")
    old = await died(store)
    clock.advance(DAY)
    young = await died(store)
    await Pruner(store).prune()
    assert await left(store, kept, old, young) == [kept, old, young]
    clock.advance(0.001)
    await Pruner(store).prune()
    assert await left(store, kept, old, young) == [kept, young]


async def test_the_newest_so_many_are_kept(store, clock):
    publish(store, mail=QueueRules(keep_dead=Retention(count=2)))
    ids = []
    for _ in range(5):
        ids.append(await died(store))
        clock.advance(1)
    other = [await died(store, "chat") for _ in range(3)]
    await Pruner(store, PruneRequest(limit=2)).prune()
    assert await left(store, *ids, *other) == [*ids[3:], *other]


async def test_age_and_count_together_take_each_letter_once(store, clock, look):
    publish(store, mail=QueueRules(keep_dead=Retention(age=10.0, count=1)))
    ids = []
    for _ in range(3):
        ids.append(await died(store))
        clock.advance(6)
    await Pruner(store).prune()
    assert await left(store, *ids) == ids[2:]
    assert look("SELECT sum(value) FROM counter WHERE name = 'evicted'") == [(2,)]


async def test_every_eviction_is_chained_and_told(store, clock, look):
    publish(store, mail=QueueRules(keep_dead=Retention(age=60.0)))
    ids = [await died(store), await died(store)]
    clock.advance(61)
    await Pruner(store).prune()
    links = await store.read(audit.links(0, 10))
    decisions = [entry for link in links for entry in decisions_of(link) or ()]
    assert sorted(entry["job"] for entry in decisions) == sorted(ids)
    assert {(entry["kind"], entry["by"], entry["queue"]) for entry in decisions} == {("evict", "retention", "mail")}
    assert {entry["reason"] for entry in decisions} == {"keep_dead of mail keeps letters for 60 s"}
    told = [entry for row in journal(look("SELECT entries FROM journal")) for entry in row if entry[0] == "evicted"]
    assert [(queue, sorted(gone)) for _, queue, gone in told] == [("mail", sorted(ids))]
    assert everything(look, "job", "body", "ending", "history") == [[], [], [], []]


async def test_the_key_of_an_evicted_letter_still_answers_for_a_while(store, clock):
    publish(store, mail=QueueRules(keep_dead=Retention(age=60.0), keep_keys=600.0))
    job_id = await died(store, idempotency_key="k")
    clock.advance(61)
    await Pruner(store).prune()
    [again] = await store.write_all(intake.enqueue, [new_job(idempotency_key="k")])
    assert (again.outcome, again.id, again.state) == ("duplicate", job_id, None)
    clock.advance(601)
    [fresh] = await store.write_all(intake.enqueue, [new_job(idempotency_key="k")])
    assert fresh.outcome == "accepted"


@pytest.mark.parametrize("keep", [Retention(age=1.0), Retention(count=1)], ids=["age", "count"])
async def test_what_waits_for_an_answer_or_a_replay_stays(store, clock, keep):
    publish(store, mail=QueueRules(keep_dead=keep))
    held, scheduled = await died(store), await died(store)
    row = (await store.read(reads.job(held, store.boot()))).row
    await store.write_all(apply, [Transition(row.n, row.token, held, "mail", Move.HOLD, State.DEAD)])
    await store.write(_scheduled, (await store.read(reads.job(scheduled, store.boot()))).row.n)
    clock.advance(60)
    plain = [await died(store), await died(store)]
    clock.advance(60)
    await Pruner(store).prune()
    assert held in await left(store, held)
    assert scheduled in await left(store, scheduled)
    assert len(await left(store, *plain)) == (0 if keep.age else 1)


@writes()
def _scheduled(_round, numbers):
    """Write a triage as a policy would have."""
    for n in numbers:
        yield "mark_letter", {"n": n, "status": "scheduled", "owner": None}
    return [None] * len(numbers)


async def test_letters_are_kept_for_good_by_default(store, clock):
    publish(store, mail=QueueRules())
    job_id = await died(store)
    clock.advance(10_000 * DAY)
    await Pruner(store).prune()
    assert await left(store, job_id) == [job_id]
