"""Breakers: what does not answer is left alone, one job probes, and all of that spends no attempt."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.failure import Class, Landed
from standfast.job import Claim
from standfast.outcome import Drained, Snooze, Succeeded
from standfast.rules import QueueRules, fixed, queue_rules
from standfast.store.store import Store
from standfast.wings.jobs import scripts as operations
from tests.store.suite import (
    beat,
    cancelled,
    catch,
    claim_one,
    claimed,
    ended,
    failed,
    journal,
    one,
    publish,
    seen,
    sweep,
    swept,
)

URL = "http://crm.example:80"
GATE = f"breaker:{URL}"
AWAY = failed(code="dependency_unavailable")


def rules(**given: Any) -> QueueRules:
    breaker = {"failures": 3, "open_for": 30, **given.pop("breaker", {})}
    return queue_rules(**{"backoff": fixed(1), "lease": 30.0, "attempts": 5, "breaker": breaker, **given})


async def requests(store: Store, number: int, host: str = "crm.example", **given: Any) -> list[str]:
    payload = f'{{"method":"GET","url":"http://{host}/x"}}'
    return [await one(store, "post", payload=payload, handler="http", **given) for _ in range(number)]


async def taken(store: Store, slots: int = 9) -> list[Claim]:
    return await claimed(store, "post", slots=slots, handlers=("http",))


async def opened(store: Store, waiting: int = 3, **given: Any) -> list[str]:
    """Have three requests fail; what else there is waits."""
    publish(store, post=rules(**given))
    await requests(store, 3)
    for claim in await taken(store):
        await ended(store, claim, AWAY, rules(**given))
    return await requests(store, waiting)


async def views(store: Store, ids: list[str]) -> list[tuple[str, int, int]]:
    found = [await seen(store, job_id) for job_id in ids]
    return [(job.view, job.attempts, job.deferrals) for job in found]


async def test_three_failures_in_a_row_open_it_for_everybody(store):
    ids = await opened(store)
    assert await taken(store) == []
    assert await views(store, ids) == [("parked", 0, 1)] * 3
    assert (await seen(store, ids[0])).parked_on == GATE
    others = await requests(store, 1, "other.example")
    assert [claim.id for claim in await taken(store)] == others, "another host is not concerned"


async def test_an_answer_between_them_keeps_it_closed(store, look):
    publish(store, post=rules())
    await requests(store, 5)
    for claim, outcome in zip(await taken(store), [AWAY, AWAY, failed(Class.PERMANENT), AWAY, AWAY], strict=True):
        await ended(store, claim, outcome, rules())
    await requests(store, 1)
    assert len(await taken(store)) == 1
    assert look("SELECT used, opens_at FROM gate") == [(2, None)]


async def test_one_job_probes_over_all_workers_and_another_each_time(store, clock):
    ids = await opened(store)
    await taken(store)
    probes = []
    for wait in (30, 60, 120, 240):
        clock.advance(wait - 1)
        assert await taken(store) == []
        clock.advance(1.5)
        [probe] = await taken(store)
        assert await taken(store) == []
        assert probe.occupies == [GATE]
        probes.append(probe.id)
        await ended(store, probe, AWAY, rules())
    assert len(set(probes)) == 4
    assert probes[3] == ids[0], "the oldest come first"
    found = await views(store, [*probes[:3], *ids])
    assert [(view, attempts) for view, attempts, _ in found] == [("parked", 1)] * 3 + [("parked", 0)] * 3


async def test_a_probe_that_is_answered_closes_it_and_the_rest_follows_little_by_little(store, clock):
    ids = await opened(store, waiting=40)
    await taken(store, slots=99)
    clock.advance(30)
    await ended(store, (await taken(store, slots=99))[0], Succeeded())
    batches = []
    for _ in range(4):
        claims = await taken(store, slots=99)
        batches.append(len(claims))
        for claim in claims:
            await ended(store, claim, Succeeded())
        clock.advance(1)
    assert batches == [8, 16, 18, 0], "with the three that had failed and were due again"
    assert {view for view, *_ in await views(store, ids)} == {"completed"}


async def test_an_outage_longer_than_every_attempt_loses_nothing_and_spends_nothing(store, clock):
    publish(store, post=rules(attempts=4))
    ids = await requests(store, 1)
    for _ in range(200):
        for claim in await taken(store):
            await ended(store, claim, AWAY, rules(attempts=4))
        clock.advance(30)
    job = await seen(store, ids[0])
    assert (job.view, job.attempts) == ("parked", 3)
    assert job.deferrals > 5
    clock.advance(600)
    await ended(store, (await taken(store))[0], Succeeded())
    assert (await seen(store, ids[0])).state == "completed"


async def test_a_probe_that_may_have_landed_spends_its_attempt(store, clock):
    ids = await opened(store)
    await taken(store)
    clock.advance(30)
    [probe] = await taken(store)
    await ended(store, probe, failed(landed=Landed.MAYBE), rules())
    assert (await views(store, [probe.id]))[0][:2] == ("retry_pending", 1)
    clock.advance(30)
    assert await taken(store) == []
    assert await views(store, ids[1:]) == [("parked", 0, 1)] * 2


@pytest.mark.parametrize("outcome", [Drained(), Snooze(100), failed(Class.UNKNOWN)])
async def test_a_probe_that_says_nothing_makes_way_for_the_next_at_once(store, clock, outcome):
    await opened(store)
    await taken(store)
    clock.advance(30)
    [probe] = await taken(store)
    await ended(store, probe, outcome, rules())
    [another] = await taken(store)
    assert another.id != probe.id
    assert another.occupies == [GATE]


async def test_a_probe_whose_worker_dies_lapses_like_any_other(store, clock):
    await opened(store)
    await taken(store)
    clock.advance(30)
    beat(store)
    [probe] = await taken(store)
    await sweep(store)
    for _ in range(5):
        clock.advance(10)
        await swept(store)
    [another] = await taken(store)
    assert another.id != probe.id
    assert (await seen(store, probe.id)).history[-1].reason_code == "worker_lost"


async def test_who_comes_first_is_the_probe_where_nobody_waits(store, clock):
    await opened(store, waiting=0)
    clock.advance(30)
    [probe] = await taken(store)
    assert probe.occupies == [GATE]


async def test_it_is_told_when_it_opens_and_when_it_closes(store, clock, look):
    await opened(store)
    await taken(store)
    clock.advance(30)
    await ended(store, (await taken(store))[0], Succeeded())
    await sweep(store)
    told = [kind for entries in journal(look("SELECT entries FROM journal ORDER BY seq")) for kind, *_ in entries]
    assert [kind for kind in told if kind.startswith("breaker")] == ["breaker_opened", "breaker_closed"]


async def test_a_claim_tells_when_to_look_again(store, clock):
    await opened(store)
    clock.advance(1)
    assert (await catch(store, "post", slots=9, handlers=("http",))).claims == []
    assert (await catch(store, "post", handlers=("http",))).next_due == pytest.approx(29.0)


async def test_a_named_dependency_stands_before_every_handler_of_its_queue(store):
    named = rules(breaker={"dependency": "crm"})
    publish(store, mail=named, copy=named)
    for _ in range(3):
        await one(store)
    for claim in await claimed(store, slots=3):
        await ended(store, claim, AWAY, named)
    job_id = await one(store, "copy")
    assert await claimed(store, "copy") == []
    assert (await seen(store, job_id)).parked_on == "breaker:crm"


async def test_without_a_name_only_requests_have_a_breaker(store, look):
    publish(store, mail=rules())
    for _ in range(4):
        await one(store)
    for claim in await claimed(store, slots=4):
        await ended(store, claim, AWAY, rules())
    assert look("SELECT key FROM gate") == []


async def test_switched_off_it_lets_everybody_go(store):
    ids = await opened(store)
    await taken(store)
    publish(store, post=QueueRules(breaker=None))
    assert {claim.id for claim in await taken(store)} >= set(ids)


async def test_too_many_requests_is_an_answer(store, look):
    publish(store, post=rules())
    await requests(store, 4)
    for claim in await taken(store):
        await ended(store, claim, failed(code="rate_limited"), rules())
    assert look("SELECT key FROM gate") == []


async def test_a_job_that_waits_too_long_for_it_dies_of_its_age(store, clock):
    ids = await opened(store, max_age=60.0)
    await taken(store)
    clock.advance(29)
    await sweep(store)
    clock.advance(40)
    await swept(store)
    found = await seen(store, ids[0])
    assert found.failure is not None
    assert (found.state, found.attempts, found.failure.reason_code) == ("dead", 0, "max_age")


async def test_a_probe_that_is_cancelled_before_its_claim_leaves_the_breaker_to_the_next(store, clock):
    ids = await opened(store)
    await taken(store)
    clock.advance(30)
    assert (await catch(store, "post", handlers=("other",))).claims == []
    await cancelled(store, ids[0])
    probe = await claim_one(store, "post", handlers=("http",), slots=9)
    assert probe.id == ids[1]


@pytest.mark.parametrize("served", [("two",), ("one", "two"), ("one",)])
async def test_a_paused_queue_does_not_keep_it_shut_for_others(store, clock, served):
    """The oldest that waits is the paused queue's, and nobody would claim it."""
    both = rules(breaker={"dependency": "crm", "failures": 1})
    publish(store, one=both, two=both)
    for queue in ("one", "one", "one", "two"):
        await one(store, queue)
    await ended(store, await claim_one(store, "one"), AWAY, both)
    assert [await claimed(store, "one", slots=9), await claimed(store, "two", slots=9)] == [[], []]
    await store.write(operations.pause, ("one", True))
    clock.advance(30)
    for queue in served:
        await claimed(store, queue, slots=9)
    assert [claim.queue for claim in await claimed(store, "two")] == (["two"] if served == ("one",) else [])


async def test_who_is_served_now_probes_before_who_came_first(store, clock):
    """The workers of the other queue may be gone."""
    both = rules(breaker={"dependency": "crm", "failures": 1})
    publish(store, one=both, two=both)
    for queue in ("one", "one", "two"):
        await one(store, queue)
    await ended(store, await claim_one(store, "one"), AWAY, both)
    assert [await claimed(store, "one", slots=9), await claimed(store, "two", slots=9)] == [[], []]
    clock.advance(30)
    assert [claim.queue for claim in await claimed(store, "two", slots=9)] == ["two"]


async def test_a_queue_without_workers_does_not_get_the_probe_after_one_that_failed(store, clock):
    """Nobody would take it, and the breaker would stay shut until the ticket is given to another job."""
    both = rules(breaker={"dependency": "crm", "failures": 1, "open_for": 5})
    publish(store, one=both, two=both)
    await one(store, "one")
    for _ in range(2):
        await one(store, "two")
    await ended(store, await claim_one(store, "one"), AWAY, both)
    clock.advance(1)
    assert [await claimed(store, "one", slots=9), await claimed(store, "two", slots=9)] == [[], []]
    clock.advance(5)
    await ended(store, await claim_one(store, "one", slots=9), AWAY, both)
    clock.advance(10)
    assert [claim.occupies for claim in await claimed(store, "one", slots=9)] == [["breaker:crm"]]


async def test_what_nobody_wants_to_call_any_more_is_forgotten(store, clock, look):
    publish(store, post=rules())
    ids = await requests(store, 3)
    for claim in await taken(store):
        await ended(store, claim, AWAY, rules())
    for job_id in ids:
        await cancelled(store, job_id)
    for _ in range(59):
        clock.advance(60)
        await taken(store)
    assert look("SELECT key FROM gate") == [(GATE,)]
    clock.advance(120)
    await taken(store)
    assert look("SELECT key FROM gate") == []
