"""Limits and rates: how many run at once and how many start in a time, over all workers, without spending attempts."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.failure import Class
from standfast.job import Claim
from standfast.outcome import Cancel, Drained, Lapsed, Snooze, Succeeded
from standfast.rules import QueueRules, fixed, queue_rules
from standfast.store.store import Store
from standfast.wings.health import scripts as health_scripts
from tests.store.suite import (
    beat,
    cancelled,
    catch,
    claim_one,
    claimed,
    ended,
    failed,
    one,
    publish,
    seen,
    states,
    sweep,
    swept,
)
from tests.waiting import seen as told

TWO_EACH = {"key": "payload.tenant", "limit": 2}


def rules(**given: Any) -> QueueRules:
    return queue_rules(backoff=fixed(10), lease=30.0, **given)


async def stored(store: Store, tenants: str, **given: Any) -> list[str]:
    """Store a job for each letter, the tenant it belongs to."""
    return [await one(store, payload=f'{{"tenant":"{tenant}"}}', **given) for tenant in tenants]


async def views(store: Store, ids: list[str]) -> str:
    """Give the first letter of each job's view."""
    return "".join([(await seen(store, job_id)).view[0] for job_id in ids])


def order_of(claims: list[Claim], ids: list[str]) -> list[int]:
    return [ids.index(claim.id) for claim in claims]


def gates_in(look: Any) -> list[tuple[Any, ...]]:
    return look("SELECT key, used FROM gate WHERE kind <> 'thread' ORDER BY key")  # type: ignore[no-any-return]


# --- by key


async def test_each_key_runs_so_many_and_the_others_are_parked_without_an_attempt(store, look):
    publish(store, mail=rules(concurrency=TWO_EACH))
    ids = await stored(store, "aaaabb")
    assert order_of(await claimed(store, slots=6), ids) == [0, 1, 4, 5]
    assert await views(store, ids) == "rrpprr"
    job = await seen(store, ids[2])
    assert (job.parked_on, job.attempts, job.deferrals) == ("limit:mail:a", 0, 1)
    assert gates_in(look) == [("limit:mail:a", 2), ("limit:mail:b", 2)]


@pytest.mark.parametrize(
    "outcome", [Succeeded(), failed(Class.PERMANENT), failed(), Cancel(), Snooze(5), Drained(), Lapsed()]
)
async def test_every_end_frees_its_place_for_who_waits_longest(store, outcome):
    publish(store, mail=rules(concurrency=TWO_EACH))
    ids = await stored(store, "aaaa")
    first, _ = await claimed(store, slots=4)
    await ended(store, first, outcome, rules())
    assert (await seen(store, ids[2])).view == "queued"
    assert order_of(await claimed(store, slots=1), ids) in ([2], [0]), "a drained one is as old"
    assert (await states(store, *ids)).count("running") == 2


async def test_who_was_let_through_is_not_overtaken_by_who_came_later(store, look):
    """Its place is its own from the moment it is free: a newcomer that is looked at first is parked."""
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "aa")
    [first] = await claimed(store, slots=2)
    ids += await stored(store, "a", priority=100)
    await ended(store, first, Succeeded())
    assert gates_in(look) == [("limit:mail:a", 1)]
    assert order_of(await claimed(store, slots=2), ids) == [1]
    assert (await seen(store, ids[2])).parked_on == "limit:mail:a"


async def test_keys_take_turns(store, clock):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "aaabbbccc")
    ran: list[int] = []
    while claims := await claimed(store, slots=3):
        clock.advance(0.01)
        ran += order_of(claims, ids)
        for claim in claims:
            await ended(store, claim, Succeeded())
    assert sorted(ran) == list(range(9))
    rounds = [{"aaabbbccc"[place] for place in ran[start : start + 3]} for start in (0, 3, 6)]
    assert rounds == [{"a", "b", "c"}] * 3, ran


async def test_a_lone_slot_finds_its_way_past_a_full_key(store):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "a" * 40 + "b")
    await claim_one(store)
    found: list[Claim] = []
    looks = 0
    while not found:
        caught = await catch(store, slots=1)
        found, looks = caught.claims, looks + 1
        assert found or caught.next_due == 0, "it says that there is more to look at"
    assert order_of(found, ids) == [40]
    assert looks <= 4


async def test_what_has_no_key_shares_one(store):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = [await one(store, payload=payload) for payload in ("{}", '{"tenant":null}', "[]", '{"tenant":"a"}')]
    assert order_of(await claimed(store, slots=4), ids) == [0, 3]
    assert (await seen(store, ids[1])).parked_on == "limit:mail:"


async def test_who_holds_a_place_without_running_gives_it_up_when_cancelled(store, look):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "aaa")
    [first] = await claimed(store, slots=3)
    await ended(store, first, Succeeded())
    await cancelled(store, ids[1])
    assert order_of(await claimed(store, slots=3), ids) == [2]
    assert gates_in(look) == [("limit:mail:a", 1)]


async def test_the_last_end_leaves_no_gate_behind(store, look):
    publish(store, mail=rules(concurrency=TWO_EACH))
    await stored(store, "aaab")
    while claims := await claimed(store, slots=4):
        for claim in claims:
            await ended(store, claim, Succeeded())
    assert gates_in(look) == []


async def test_a_thread_and_a_limit_hold_together(store):
    """What is parked at a limit keeps its thread; what waits in the thread takes no place."""
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}, coalesce="never"))
    ids = [await one(store, payload='{"tenant":"a"}', thread_key=key) for key in ("s", "t", "t", "s")]
    first = await claim_one(store, slots=4)
    ran = [first]
    for _ in range(3):
        await ended(store, ran[-1], Succeeded())
        ran += await claimed(store, slots=4)
    assert len({claim.id for claim in ran}) == 4
    assert order_of(ran, ids).index(1) < order_of(ran, ids).index(2)


# --- the whole queue


async def test_a_queue_runs_so_many_whoever_claims(store, look):
    publish(store, mail=rules(concurrency=3))
    ids = await stored(store, "abcdef")
    assert len(await claimed(store, slots=2, worker="one")) == 2
    [third] = await claimed(store, slots=9, worker="two")
    assert await claimed(store, slots=9) == []
    assert await views(store, ids) == "rrrqqq", "what waits stays where it is"
    assert gates_in(look) == [("limit:mail", 3)]
    await ended(store, third, Succeeded())
    assert order_of(await claimed(store, slots=9), ids) == [3]


async def test_an_end_in_a_full_queue_wakes_the_workers(store):
    publish(store, mail=rules(concurrency=1))
    await stored(store, "ab")
    first = await claim_one(store)
    heard: list[dict[str, float]] = []
    store.listen(heard.append)
    await ended(store, first, Succeeded())
    await told(lambda: {"mail": 0.0} in heard)
    store.unlisten(heard.append)


async def test_an_end_makes_room_also_under_a_lower_limit(store):
    publish(store, mail=rules(concurrency=3))
    await stored(store, "abcd")
    claims = await claimed(store, slots=4)
    publish(store, mail=rules(concurrency=1))
    for claim in claims[:2]:
        await ended(store, claim, Succeeded())
    heard: list[dict[str, float]] = []
    store.listen(heard.append)
    await ended(store, claims[2], Succeeded())
    await told(lambda: {"mail": 0.0} in heard)
    store.unlisten(heard.append)


# --- changing, mending


async def test_another_limit_is_in_force_with_the_next_claim(store):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "aaaa")
    await claim_one(store, slots=4)
    publish(store, mail=rules(concurrency=TWO_EACH))
    assert len(await claimed(store, slots=4)) == 1
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    assert await claimed(store, slots=4) == []
    publish(store, mail=rules())
    assert len(await claimed(store, slots=4)) == 2
    assert await states(store, *ids) == ["running"] * 4


async def test_a_lower_limit_waits_until_so_many_have_ended(store):
    publish(store, mail=rules(concurrency=TWO_EACH))
    await stored(store, "aaaa")
    first, second = await claimed(store, slots=4)
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    await ended(store, first, Succeeded())
    assert await claimed(store, slots=4) == []
    await ended(store, second, Succeeded())
    assert len(await claimed(store, slots=4)) == 1


async def test_a_lost_worker_gives_its_places_back(store, clock):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "aa")
    beat(store)
    await claim_one(store, slots=2)
    await sweep(store)
    for _ in range(5):
        clock.advance(10)
        await swept(store)
    assert order_of(await claimed(store, slots=2, worker="another"), ids) == [1]


async def test_a_sweep_puts_a_wrong_count_right(store, change, look):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "aab")
    claims = await claimed(store, slots=3)
    await ended(store, claims[1], Succeeded())
    change("UPDATE gate SET used = 5")
    await ended(store, claims[0], Succeeded())
    assert await claimed(store, slots=3) == []
    await sweep(store)
    assert order_of(await claimed(store, slots=3), ids) == [1]
    assert gates_in(look) == [("limit:mail:a", 1)]


async def test_a_sweep_lets_go_who_waits_at_a_gate_that_is_gone(store, change):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    await stored(store, "aa")
    first = await claim_one(store, slots=2)
    change("DELETE FROM gate")
    await ended(store, first, Succeeded())
    assert await claimed(store) == []
    await sweep(store)
    assert len(await claimed(store)) == 1


async def test_a_place_that_nobody_claims_with_goes_to_another(store, clock):
    """The one that was let through has a handler that nobody serves any more."""
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "a") + await stored(store, "a", handler="gone") + await stored(store, "a")
    [first] = await claimed(store, slots=3, handlers=("mail", "gone"))
    await ended(store, first, Succeeded())
    assert await claimed(store, slots=3) == []
    clock.advance(61)
    await sweep(store)
    assert order_of(await claimed(store, slots=3), ids) == [2]


async def test_a_sweep_finds_the_wrong_count_among_many_right_ones(store, change, monkeypatch):
    monkeypatch.setattr("standfast.wings.limits.scripts.MENDED_PER_SWEEP", 2)
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    ids = await stored(store, "abcdzz")
    *_, last = await claimed(store, slots=9)
    change("UPDATE gate SET used = 5 WHERE key = 'limit:mail:z'")
    await ended(store, last, Succeeded())
    await sweep(store)
    assert order_of(await claimed(store, slots=9), ids) == [5]


async def test_other_rates_do_not_touch_those_of_a_queue_with_a_like_name(store, look):
    once = {"key": "payload.tenant", "limit": 1, "per": 3600}
    publish(store, **{"a_b": rules(rate=once), "a-b": rules(rate=once)})
    for _ in range(2):
        await one(store, "a-b", payload='{"tenant":"x"}')
    await claim_one(store, "a-b", slots=2)
    publish(store, a_b=rules(rate={**once, "limit": 2}))
    assert gates_in(look) == [("rate:a-b:x", 0)]


async def test_a_queue_without_limits_has_no_gates(store, look):
    await stored(store, "aab")
    await ended(store, (await claimed(store, slots=3))[0], failed())
    assert gates_in(look) == []


# --- rates


async def test_a_rate_spreads_the_starts(store, clock):
    publish(store, mail=rules(rate="10/s"))
    await stored(store, "a" * 5)
    starts = []
    for _ in range(5):
        caught = await catch(store, slots=9)
        starts.append(len(caught.claims))
        assert caught.next_due == pytest.approx(0.1)
        clock.advance(caught.next_due)
    assert starts == [1] * 5


async def test_a_burst_may_start_together(store, clock):
    publish(store, mail=rules(rate={"limit": 10, "per": 10, "burst": 4}))
    await stored(store, "a" * 20)
    taken = []
    for _ in range(10):
        taken.append(len(await claimed(store, slots=9)))
        clock.advance(1)
    assert taken[0] == 4
    assert sum(taken) <= 10


async def test_a_rate_by_key_parks_and_opens_by_itself(store, clock):
    publish(store, mail=rules(rate={"key": "payload.tenant", "limit": 1, "per": 10}))
    ids = await stored(store, "aaab")
    caught = await catch(store, slots=9)
    assert order_of(caught.claims, ids) == [0, 3]
    assert caught.next_due == pytest.approx(10.0)
    assert (await seen(store, ids[1])).parked_on == "rate:mail:a"
    clock.advance(9.9)
    assert await claimed(store, slots=9) == []
    clock.advance(0.2)
    assert order_of(await claimed(store, slots=9), ids) == [1]
    clock.advance(10.2)
    assert order_of(await claimed(store, slots=9), ids) == [2]
    assert (await seen(store, ids[2])).deferrals == 1


async def test_a_rate_nobody_waits_for_is_forgotten(store, clock, look):
    publish(store, mail=rules(rate={"key": "payload.tenant", "limit": 1, "per": 10}))
    await stored(store, "a")
    await claim_one(store)
    await sweep(store)
    assert gates_in(look) == [("rate:mail:a", 0)]
    clock.advance(11)
    await sweep(store)
    assert gates_in(look) == []


async def test_rate_and_limit_together_let_all_pass_in_the_end(store, clock):
    publish(store, mail=rules(rate={"key": "payload.tenant", "limit": 2, "per": 1}, concurrency=TWO_EACH))
    ids = await stored(store, "aaaaaabbb")
    running: list[Claim] = []
    for _ in range(40):
        running += await claimed(store, slots=3)
        assert len([claim for claim in running if '"a"' in claim.payload]) <= 2
        clock.advance(0.5)
        if running:
            await ended(store, running.pop(0), Succeeded())
    assert await states(store, *ids) == ["completed"] * 9


# --- seeing


async def test_what_a_gate_holds_back_is_not_silent_unless_nothing_will_let_it_go(store, clock, change):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}), slow=rules(concurrency=1))
    await stored(store, "aa")
    for _ in range(2):
        await one(store, "slow")
    await claimed(store, slots=2)
    await claim_one(store, "slow")

    async def silent() -> dict[str, int]:
        clock.advance(21)
        beat(store)
        found: dict[str, int] = (
            await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0, unmoved_for=20.0))
        ).silent
        return found

    assert await silent() == {}
    change("UPDATE gate SET used = 0")
    assert await silent() == {"mail": 1, "slow": 1}


async def test_what_is_held_back_for_more_than_an_hour_is_counted(store, clock):
    publish(store, mail=rules(concurrency={"key": "payload.tenant", "limit": 1}))
    await stored(store, "aab")
    await claimed(store, slots=3)
    clock.advance(3599)
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).deferred == ()
    clock.advance(2)
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).deferred == (
        ("mail", 1),
    )


async def test_a_jump_of_the_clock_is_noted_once(store, clock):
    """On a server the server's clock is the queue's own: there is nothing that could jump against it."""
    await sweep(store)
    clock.jump_wall(3600)
    await sweep(store)
    jumped = (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).upkeep.get(
        "clock jumped"
    )
    assert (jumped is None) == (store.skew() == 0.0)
    clock.advance(10)
    await sweep(store)
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).upkeep.get(
        "clock jumped"
    ) == jumped
