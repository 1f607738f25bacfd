"""Claiming: who gets what, how much, and what a claim writes before anything runs."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import UTC, datetime

import pytest

from standfast.outcome import Lapsed, Succeeded
from standfast.profiles import rules_for
from standfast.rules import DEFAULTS, QueueRules
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.spine.registry import Declaration
from tests.store.suite import catch, claim_one, claimed, ended, enqueued, failed, new_job, one, publish, seen


async def test_a_claim_counts_before_anything_runs(store, clock):
    """A payload that kills its worker must be counted: attempt and token are on disk when the claim returns."""
    job_id = await one(store)
    clock.advance(5)
    claim = await claim_one(store, worker="worker-7")
    assert (claim.id, claim.queue, claim.handler, claim.worker) == (job_id, "mail", "mail", "worker-7")
    assert (claim.attempts, claim.token, claim.round_start) == (1, 1, 0)
    assert (claim.claimed_at, claim.entered_at) == (store.now(), store.now() - 5)
    view = await seen(store, job_id)
    assert (view.state, view.attempts, view.worker) == ("running", 1, "worker-7")
    assert (view.claimed_at, view.ready_at) == (datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC), None)


async def test_a_repeat_raises_attempt_and_token_again(store, clock):
    await one(store)
    for attempt in (1, 2, 3):
        claim = await claim_one(store)
        assert (claim.attempts, claim.token, claim.repeat) == (attempt, attempt, attempt)
        await ended(store, claim, failed())
        clock.advance(300)


async def test_nothing_waits_nothing_is_claimed(store):
    await one(store, "chat")
    for queue in ("mail", "unheard-of"):
        caught = await catch(store, queue)
        assert (caught.claims, caught.rules, caught.next_due) == ([], {queue: DEFAULTS}, None)


async def test_a_claim_takes_as_many_as_it_has_slots(store):
    ids = await enqueued(store, *(new_job() for _ in range(5)))
    assert [claim.id for claim in await claimed(store, slots=3)] == ids[:3]
    assert [claim.id for claim in await claimed(store, slots=3)] == ids[3:]
    assert await claimed(store, slots=3) == []


async def test_no_slot_no_claim(store):
    await one(store)
    assert await claimed(store, slots=0) == []


async def test_several_queues_in_one_order(store):
    ids = await enqueued(store, new_job("mail"), new_job("chat"), new_job("mail"), new_job("other"))
    order = ClaimRequest(
        "w", (QueueDemand("chat", ("chat",), 9), QueueDemand("mail", ("mail",), 1), QueueDemand("empty", ("empty",), 9))
    )
    assert [claim.id for claim in (await store.claim(order)).claims] == [ids[1], ids[0]]


async def test_only_wanted_handlers_are_claimed(store):
    ids = await enqueued(store, *(new_job(handler=name) for name in ("draft", "send", "draft", "purge")))
    assert [claim.id for claim in await claimed(store, handlers=["send"], slots=9)] == [ids[1]]
    assert [claim.id for claim in await claimed(store, handlers=["draft", "send"], slots=9)] == [ids[0], ids[2]]
    assert await claimed(store, handlers=["draft", "send"], slots=9) == []
    view = await seen(store, ids[3])
    assert (view.state, view.attempts, view.deferrals) == ("queued", 0, 0)


async def test_several_handlers_of_a_queue_share_one_order(store, clock):
    ids = []
    for handler, priority in (("draft", 1), ("send", 5), ("draft", 5), ("send", 1), ("purge", 9)):
        ids += await enqueued(store, new_job(handler=handler, priority=priority))
        clock.advance(1)
    wanted = await claimed(store, handlers=["draft", "send", "purge"], slots=9)
    assert [claim.id for claim in wanted] == [ids[4], ids[1], ids[2], ids[0], ids[3]]
    assert [claim.handler for claim in wanted] == ["purge", "send", "draft", "draft", "send"]


@pytest.mark.parametrize("name", ["$daily", 'a"b', "[0]", "a.b", "5", "ünïcode", "it's", "a b"])
async def test_a_handler_may_have_any_name(store, name):
    publish(store, Declaration(queue="mail", name=name, replay_mode="manual", timeout=7.0))
    job_id = await one(store, handler=name)
    claim = await claim_one(store, handlers=[name, "other"])
    assert (claim.id, claim.handler, claim.replay_mode, claim.timeout) == (job_id, name, "manual", 7.0)


async def test_each_job_is_stamped_by_its_own_handlers_declaration(store):
    publish(
        store,
        Declaration(queue="mail", name="send", replay_mode="manual", timeout=5.0),
        Declaration(queue="mail", name="draft"),
        Declaration(queue="chat", name="draft", replay_mode="manual"),
        mail=QueueRules(timeout=60.0),
    )
    await enqueued(store, *(new_job(handler=name) for name in ("send", "draft", "unknown")))
    claims = await claimed(store, handlers=["send", "draft", "unknown"], slots=9)
    assert [(claim.handler, claim.replay_mode, claim.timeout) for claim in claims] == [
        ("send", "manual", 5.0),
        ("draft", "replay", 60.0),
        ("unknown", "replay", 60.0),
    ]


async def test_the_next_due_time_is_told(store, clock):
    await enqueued(store, new_job(delay=60.0), new_job("chat", delay=20.0))
    assert (await catch(store)).next_due == 20.0
    clock.advance(15)
    assert (await catch(store)).next_due == 5.0
    clock.advance(45)
    assert (await catch(store)).next_due is None


async def test_delayed_jobs_become_claimable_in_the_order_they_came_due(store, clock):
    ids = await enqueued(store, *(new_job(delay=float(delay)) for delay in (30, 10, 20, 99)))
    clock.advance(50)
    assert [claim.id for claim in await claimed(store, slots=9)] == [ids[1], ids[2], ids[0]]


async def test_waiting_counts_from_when_a_job_came_due(store, clock):
    """First in, first out goes by due time: the late-comer that was due earlier runs first."""
    [delayed] = await enqueued(store, new_job(delay=60.0))
    clock.advance(30)
    [prompt] = await enqueued(store, new_job())
    clock.advance(30)
    assert [claim.id for claim in await claimed(store, slots=9)] == [prompt, delayed]


async def test_more_due_at_once_than_one_claim_makes_ready_still_come(store, clock):
    ids = await enqueued(store, *(new_job(delay=1.0) for _ in range(1200)))
    clock.advance(2)
    found: list[str] = []
    while (caught := await catch(store, slots=512)).claims or caught.next_due == 0:
        found += [claim.id for claim in caught.claims]
    assert sorted(found) == sorted(ids)


async def test_two_workers_in_threads_never_get_the_same_job(store):
    ids = await enqueued(store, *(new_job() for _ in range(300)))
    found: list[str] = []
    start = threading.Barrier(4)

    def work(worker: str) -> None:
        start.wait()
        while claims := asyncio.run(claimed(store, slots=7, worker=worker)):
            found.extend(claim.id for claim in claims)

    threads = [threading.Thread(target=work, args=(f"worker-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert Counter(found) == Counter(ids)


async def test_two_workers_in_one_transaction_never_get_the_same_job(store):
    ids = await enqueued(store, *(new_job() for _ in range(40)))
    catches = await asyncio.gather(*(claimed(store, slots=3, worker=f"worker-{n}") for n in range(20)))
    found = [claim.id for claims in catches for claim in claims]
    assert Counter(found) == Counter(ids)


async def test_a_claim_is_told_once_with_every_job(store, look):
    ids = await enqueued(store, *(new_job() for _ in range(3)))
    await claimed(store, slots=9)
    [(entries,)] = look("SELECT entries FROM journal ORDER BY seq DESC LIMIT 1")
    assert entries == f'[["claimed","mail",["{ids[0]}","{ids[1]}","{ids[2]}"]]]'
    assert look("SELECT value FROM counter WHERE name = 'claimed'") == [(3,)]


async def test_a_lost_job_is_claimed_by_another_under_a_new_token(store, clock):
    await one(store)
    first = await claim_one(store, worker="worker-1")
    await ended(store, first, Lapsed())
    clock.advance(10)
    second = await claim_one(store, worker="worker-2")
    assert (second.id, second.token, second.attempts, second.worker) == (first.id, 2, 2, "worker-2")
    assert not await ended(store, first, Succeeded())
    assert await ended(store, second, Succeeded())


@pytest.mark.parametrize("rules", [DEFAULTS, rules_for("mail", concurrency=2)], ids=["plain", "limited"])
@pytest.mark.parametrize(
    "declared",
    [("replay", "manual", "manual"), ("manual", "verify_first", "manual"), ("verify_first", None, "verify_first")],
    ids=lambda declared: "-".join(map(str, declared)),
)
async def test_no_other_program_makes_a_worker_s_handler_less_strict(store, look, rules, declared):
    """The last declaration counts for everybody, but what a worker's own code says of its handler is the least."""
    published, own, stamped = declared
    publish(store, Declaration(queue="mail", name="mail", replay_mode=published), mail=rules)
    await one(store)
    modes = None if own is None else {"mail": own}
    [claim] = (await store.claim(ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 1, modes=modes),)))).claims
    assert claim.replay_mode == stamped
    assert look("SELECT replay_mode FROM job") == [(stamped,)], "a sweeper decides by what is stored"
