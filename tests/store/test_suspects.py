"""Suspects: what a dead worker held. Claims pass them over, and one at a time is claimed alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from standfast.job import Claim
from standfast.outcome import Drained, NotEntered, Succeeded
from standfast.rules import Limit, QueueRules, Rate
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, QueueDemand
from standfast.wings.health import scripts as health_scripts
from standfast.wings.jobs import scripts as operations
from standfast.wings.limits.words import Closing
from standfast.worker import lost_workers, upkeep
from standfast.worker.lost_workers import SuspectTurn
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest, WorkerCard
from tests.store.suite import EVERY, claimed, ended, enqueued, failed, new_job, one, publish, replayed, seen, swept

PLAIN = ClaimRequest("other", (QueueDemand("mail", ("mail",), 10),))
ALONE = ClaimRequest("other", (QueueDemand("mail", ("mail",), 1, alone=True),))


def beat(store: Any, worker: str, process: str | None = None) -> None:
    store.write(upkeep.beat, WorkerCard(worker, "host", 1, '["mail"]', "{}", process=process)).result()


async def buried(store: Any, *processes: str) -> None:
    """Sweep as a worker does that knows these processes to be dead."""
    sweep = SweepRequest(every=EVERY, patience=EVERY)
    await Sweeper(store, sweep, roll=lambda: 0.0, dead=lambda: processes).sweep()


async def plain(store: Any) -> ClaimResult:
    return await store.claim(PLAIN)  # type: ignore[no-any-return]


async def alone(store: Any) -> Claim | None:
    found = (await store.claim(ALONE)).claims
    assert len(found) <= 1
    return found[0] if found else None


async def held(store: Any, number: int, *, worker: str = "worker-1", process: str = "p", **given: Any) -> list[str]:
    """Have a worker hold so many jobs; give their ids."""
    beat(store, worker, process)
    ids = await enqueued(store, *(new_job(**given) for _ in range(number)))
    assert len(await claimed(store, slots=number, worker=worker)) == number
    return ids


async def test_what_a_dead_worker_held_in_company_spends_nothing_and_is_claimed_alone_in_its_old_order(store, clock):
    """Its process is known to be dead, so nobody waits: not for its lease, nor for the beat after a gap."""
    ids = await held(store, 3)
    clock.advance(1)
    newer = await one(store)
    await buried(store, "p")
    for job in [await seen(store, each) for each in ids]:
        assert (job.state, job.attempts, job.reason) == ("queued", 0, "worker_lost")
        assert [(line.reason_code, line.landed, line.possible_duplicate) for line in job.history] == [
            ("worker_lost", "maybe", True)
        ]
    found = await plain(store)
    assert [claim.id for claim in found.claims] == [newer]
    assert found.suspects == ("mail",)
    for job_id in ids:
        claim = await alone(store)
        assert claim is not None
        assert (claim.id, claim.attempts, claim.suspect, claim.landed) == (job_id, 1, 1, "maybe")
        assert await ended(store, claim, Succeeded())
    assert await alone(store) is None
    assert (await plain(store)).suspects == ()


async def test_a_job_that_was_alone_with_its_worker_spends_its_attempt_and_is_suspect_too(store, clock):
    [job_id] = await held(store, 1)
    await buried(store, "p")
    assert (await seen(store, job_id)).attempts == 1
    clock.advance(10)
    found = await plain(store)
    assert (found.claims, found.suspects) == ([], ("mail",))
    again = await alone(store)
    assert again is not None
    assert (again.id, again.attempts) == (job_id, 2)


async def test_a_crash_loop_of_a_suspect_ends(store, clock):
    publish(store, mail=QueueRules(attempts=3))
    poisoned, innocent = await held(store, 2)
    await buried(store, "p")
    for attempt in (1, 2, 3):
        clock.advance(10)
        beat(store, "other", f"p{attempt}")
        claim = await alone(store)
        while claim is not None and claim.id == innocent:
            await ended(store, claim, Succeeded())
            claim = await alone(store)
        assert claim is not None
        assert (claim.id, claim.attempts) == (poisoned, attempt)
        await buried(store, f"p{attempt}")
    dead = await seen(store, poisoned)
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "worker_lost", 3)
    done = await seen(store, innocent)
    assert (done.state, done.attempts) == ("completed", 1)


async def test_what_is_found_late_of_a_worker_in_company_was_in_company(store, clock):
    """Leases differ: when the last one lapses, the others are long taken away, and it looks as if it had been alone."""
    for _ in range(3):
        clock.advance(EVERY)
        await swept(store)
    beat(store, "worker-1")
    short, long = await one(store, lease=20.0), await one(store, lease=60.0)
    await claimed(store, slots=2, worker="worker-1")
    for _ in range(8):
        clock.advance(EVERY)
        await swept(store)
    assert [(await seen(store, each)).attempts for each in (short, long)] == [0, 0]
    assert [(await seen(store, each)).reason for each in (short, long)] == ["worker_lost", "worker_lost"]


async def test_a_sweep_that_takes_several_bites_takes_none_of_them_for_alone(store):
    ids = await held(store, 201)
    await buried(store, "p")
    assert {(await seen(store, each)).attempts for each in ids} == {0}


async def test_two_workers_of_one_process_are_company(store):
    """Of an application that works and calls, each holds one job: either may have killed the process."""
    [one_, other] = [(await held(store, 1, worker=worker))[0] for worker in ("worker-1", "caller:worker-2")]
    await buried(store, "p")
    assert [(await seen(store, each)).attempts for each in (one_, other)] == [0, 0]


async def test_a_suspect_that_ran_alone_counts_whatever_else_its_process_called(store):
    """Otherwise a crash loop would go on for ever in a process that always calls something."""
    suspect, beside = await held(store, 2)
    await buried(store, "p")
    beat(store, "other", "q")
    claim = await alone(store)
    assert claim is not None
    [called] = await held(store, 1, worker="caller", process="q")
    await buried(store, "q")
    assert [(await seen(store, each)).attempts for each in (suspect, beside, called)] == [1, 0, 0]


async def test_a_worker_that_is_heard_of_again_was_not_lost(store, clock):
    """Late for a short lease, it keeps what has a longer one; if it dies later, what it holds then counts."""
    for _ in range(3):
        clock.advance(EVERY)
        await swept(store)
    beat(store, "worker-1", "p")
    short, long = await one(store, lease=5.0), await one(store, lease=600.0)
    await claimed(store, slots=2, worker="worker-1")
    clock.advance(EVERY)
    await swept(store)
    assert [(await seen(store, each)).state for each in (short, long)] == ["queued", "running"]
    beat(store, "worker-1", "p")
    await buried(store, "p")
    assert (await seen(store, long)).attempts == 1, "it was alone with its worker by then"


@pytest.mark.parametrize(
    ("outcome", "suspect"), [(Drained(), True), (NotEntered("drain"), True), (failed(), False)], ids=str
)
async def test_a_suspect_stays_one_until_it_has_shown_that_it_does_not_kill(store, clock, outcome, suspect):
    await held(store, 2)
    await buried(store, "p")
    claim = await alone(store)
    assert claim is not None
    await ended(store, claim, outcome)
    clock.advance(10)
    assert (claim.id in {each.id for each in (await plain(store)).claims}) is not suspect


async def test_a_letter_that_died_with_its_worker_runs_alone_when_it_is_replayed(store):
    publish(store, mail=QueueRules(attempts=1))
    [job_id] = await held(store, 1)
    await buried(store, "p")
    await replayed(store, job_id)
    assert (await plain(store)).claims == []
    claim = await alone(store)
    assert claim is not None
    assert claim.id == job_id


async def test_suspects_pass_their_gates_as_everybody_does(store):
    """A limit of one is kept, and what waits there is still a suspect when its turn comes."""
    publish(store, mail=QueueRules(concurrency=Limit(limit=2)))
    first, second = await held(store, 2)
    publish(store, mail=QueueRules(concurrency=Limit(limit=1)))
    await buried(store, "p")
    claim = await alone(store)
    assert claim is not None
    assert claim.id == first
    assert await alone(store) is None
    await ended(store, claim, Succeeded())
    assert (await plain(store)).claims == []
    claim = await alone(store)
    assert claim is not None
    assert claim.id == second


async def test_a_suspect_has_the_next_place_of_its_queue_before_fresh_jobs(store):
    """One at a time waits for it. Meanwhile no worker is told of the others: they could not start either."""
    publish(store, mail=QueueRules(concurrency=Limit(limit=2)))
    first, second = await held(store, 2)
    fresh = await enqueued(store, *(new_job() for _ in range(4)))
    await buried(store, "p")
    ahead = (await plain(store)).claims
    assert [claim.id for claim in ahead] == fresh[:2]
    assert (await plain(store)).suspects == ("mail",)
    assert (await store.claim(ALONE)).suspects == ("mail",), "it is held back, and there is one"
    assert (await store.claim(ALONE)).suspects == ("mail",)
    assert [(await seen(store, each)).deferrals for each in (first, second)] == [1, 0]
    assert (await plain(store)).suspects == ()
    await ended(store, ahead[0], Succeeded())
    found = await plain(store)
    assert (found.claims, found.suspects) == ([], ("mail",))
    claim = await alone(store)
    assert claim is not None
    assert claim.id == first
    assert await alone(store) is None
    await ended(store, ahead[1], Succeeded())
    await ended(store, claim, Succeeded())
    assert [each.id for each in (await plain(store)).claims] == [fresh[2]], "the other place is the second suspect's"
    claim = await alone(store)
    assert claim is not None
    assert claim.id == second


async def test_a_suspect_has_the_next_token_of_its_queue_before_fresh_jobs(store, clock):
    publish(store, mail=QueueRules(rate=Rate(limit=1, per=10.0)))
    first, second = (await held(store, 1))[0], (await one(store))
    clock.advance(11)
    beat(store, "worker-1", "p")
    assert len(await claimed(store, slots=1, worker="worker-1")) == 1
    await buried(store, "p")
    fresh = await one(store)
    for suspect in (first, second):
        assert await alone(store) is None
        clock.advance(11)
        found = await plain(store)
        assert (found.claims, (await plain(store)).suspects) == ([], ("mail",))
        claim = await alone(store)
        assert claim is not None
        assert claim.id == suspect
        await ended(store, claim, Succeeded())
    clock.advance(11)
    assert [each.id for each in (await plain(store)).claims] == [fresh]


async def test_a_place_that_a_suspect_was_given_and_no_process_used_goes_to_another_job(store, clock):
    publish(store, mail=QueueRules(concurrency=Limit(limit=2)))
    suspect, _ = await held(store, 2)
    fresh = await enqueued(store, *(new_job() for _ in range(3)))
    await buried(store, "p")
    beat(store, "other", "q")
    [first, _] = (await plain(store)).claims
    assert await alone(store) is None
    await ended(store, first, Succeeded())
    assert (await plain(store)).claims == []
    for _ in range(8):
        clock.advance(EVERY)
        beat(store, "other", "q")
        await swept(store)
    assert [each.id for each in (await plain(store)).claims] == [fresh[2]]
    assert (await seen(store, suspect)).state == "queued"


async def test_suspects_behind_a_closed_gate_are_left_there(store):
    """No process need be started for them; one that looks sees that they are held back."""
    publish(store, mail=QueueRules(gate="https://gate.example"))
    demand = PLAIN.demands[0]
    opened = ClaimRequest("other", (msgspec.structs.replace(demand, admission="open"),))
    closed = ClaimRequest("other", (msgspec.structs.replace(demand, admission=Closing(0.0, "no")),))
    beat(store, "worker-1", "p")
    await enqueued(store, *(new_job() for _ in range(2)))
    assert len((await store.claim(msgspec.structs.replace(opened, worker="worker-1"))).claims) == 2
    await buried(store, "p")
    assert (await store.claim(closed)).suspects == ()
    assert (await store.claim(opened)).suspects == ("mail",)
    alone_there = ClaimRequest("other", (msgspec.structs.replace(closed.demands[0], slots=1, alone=True),))
    found = await store.claim(alone_there)
    assert (found.claims, found.suspects) == ([], ("mail",))


async def test_a_suspect_keeps_its_thread(store):
    publish(store, mail=QueueRules(coalesce="never"))
    first, second = await enqueued(store, *(new_job(thread_key="t") for _ in range(2)))
    beside = await one(store)
    beat(store, "worker-1", "p")
    assert {claim.id for claim in await claimed(store, slots=9, worker="worker-1")} == {first, beside}
    await buried(store, "p")
    assert (await plain(store)).claims == []
    claim = await alone(store)
    assert claim is not None
    assert claim.id == first
    await ended(store, claim, Succeeded())
    assert [each.id for each in (await plain(store)).claims] == [second]


async def test_a_paused_queue_gives_no_suspects(store):
    await held(store, 2)
    await buried(store, "p")
    await store.write(operations.pause, ("mail", True))
    assert (await plain(store)).suspects == ()
    assert await alone(store) is None


async def test_only_who_has_the_handler_is_told_of_suspects(store):
    await held(store, 2)
    await buried(store, "p")
    found = await store.claim(ClaimRequest("other", (QueueDemand("mail", ("another",), 1),)))
    assert found.suspects == ()


async def test_one_worker_at_a_time_stands_apart_for_a_queue(store, clock):
    for worker in ("a", "b"):
        beat(store, worker, worker)
    assert await store.write(lost_workers.take_suspect_turn, SuspectTurn("a", "mail"))
    assert await store.write(lost_workers.take_suspect_turn, SuspectTurn("a", "mail")), "it has it already"
    assert not await store.write(lost_workers.take_suspect_turn, SuspectTurn("b", "mail"))
    assert await store.write(lost_workers.take_suspect_turn, SuspectTurn("b", "chat"))
    await store.write(lost_workers.release_suspect_turn, "a")
    assert await store.write(lost_workers.take_suspect_turn, SuspectTurn("b", "mail"))
    clock.advance(1)
    beat(store, "a", "a")
    await buried(store, "b")
    assert await store.write(lost_workers.take_suspect_turn, SuspectTurn("a", "mail")), "the dead keep nobody waiting"


async def test_a_worker_that_died_is_no_live_one(store):
    for worker in ("a", "b"):
        beat(store, worker, worker)
    await buried(store, "a")
    assert [
        worker.id
        for worker in (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).workers
    ] == ["b"]


async def test_how_long_jobs_wait_to_run_alone_is_told_from_the_loss_of_their_worker(store, clock):
    """Also where other jobs of the queue are claimed all the time; what runs alone already waits no more."""
    await held(store, 2)
    clock.advance(100)
    lost = store.now()
    await buried(store, "p")
    clock.advance(30)
    await one(store)
    await plain(store)
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).suspects == (
        ("mail", 2, pytest.approx(lost, abs=1)),
    )
    assert await alone(store) is not None
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).suspects == (
        ("mail", 1, pytest.approx(lost, abs=1)),
    )
