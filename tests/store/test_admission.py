"""Admission gates in the store: what a claim does with what the worker was told."""

from __future__ import annotations

from standfast.job import Claim
from standfast.outcome import Succeeded
from standfast.rules import QueueRules, queue_rules
from standfast.spine import claim as claiming
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.store import Store
from standfast.wings.limits.words import Closing
from tests.store.suite import ended, one, publish, seen

GATED = queue_rules(gate="http://quota.example/")
CLOSED = Closing(0.0, "it says no")


async def asked(store: Store, admission: Closing | str | None, slots: int = 2) -> list[Claim]:
    want = QueueDemand("mail", ("mail",), slots, admission)
    return (await store.write(claiming.claim, ClaimRequest("worker-1", (want,)))).claims


async def parked(store: Store, ids: list[str]) -> list[tuple[str | None, int]]:
    found = [await seen(store, job_id) for job_id in ids]
    return [(job.parked_on, job.deferrals) for job in found]


async def test_who_did_not_ask_gets_nothing(store):
    publish(store, mail=GATED)
    ids = [await one(store)]
    assert await asked(store, None) == []
    assert await parked(store, ids) == [(None, 0)]


async def test_a_closed_gate_parks_what_would_have_started_once_for_each_closing(store):
    publish(store, mail=GATED)
    ids = [await one(store) for _ in range(5)]
    for _ in range(3):
        assert await asked(store, CLOSED) == []
    assert await parked(store, ids) == [("gate:mail", 1)] * 2 + [(None, 0)] * 3
    assert {claim.id for claim in await asked(store, "open", 5)} == set(ids)
    assert (await seen(store, ids[0])).attempts == 1


async def test_an_open_gate_closes_again(store, look):
    publish(store, mail=GATED)
    ids = [await one(store) for _ in range(2)]
    await asked(store, CLOSED)
    for claim in await asked(store, "open", 1):
        await ended(store, claim, Succeeded(), GATED)
    assert look("SELECT key FROM gate") == []
    await asked(store, CLOSED)
    assert [deferrals for _, deferrals in await parked(store, ids)] in ([1, 2], [2, 1])


async def test_rules_without_a_gate_let_go_who_waits_at_it(store):
    publish(store, mail=GATED)
    ids = [await one(store)]
    await asked(store, CLOSED)
    publish(store, mail=QueueRules())
    assert [claim.id for claim in await asked(store, None)] == ids


async def test_a_closed_gate_with_nothing_to_hold_back_leaves_no_trace(store, look):
    publish(store, mail=GATED)
    await asked(store, CLOSED)
    assert look("SELECT key FROM gate") == []
