"""Limits on PostgreSQL: a claim never waits who holds a gate, and what is let through is picked among the free."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from standfast.application.wings import store_at
from standfast.job import Claim, NewJob
from standfast.lifecycle import Transition
from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS, Limit, QueueRules
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim import claim
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, Publication, QueueDemand
from standfast.store.postgres.driver import STATEMENTS
from standfast.store.store import Store
from standfast.wings.queues import publishing
from standfast.worker import upkeep
from standfast.worker.settling import settle
from standfast.worker.upkeep import SweepRequest
from tests.postgres import connect

RULES = QueueRules(concurrency=Limit(key="payload.tenant", limit=1))


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    opened = store_at(postgres_url)
    publishing.publish(opened, Publication({"mail": RULES}, []))
    yield opened
    opened.close()


async def stored(store: Store, tenants: str) -> None:
    await store.write_all(intake.enqueue, [_of(tenant, place) for place, tenant in enumerate(tenants)])


def _of(tenant: str, place: int) -> NewJob:
    return NewJob(id=f"{tenant}{place}", queue="mail", handler="mail", payload=f'{{"tenant":"{tenant}"}}')


async def claimed(store: Store) -> ClaimResult:
    return await store.write(claim, ClaimRequest("worker", (QueueDemand("mail", ("mail",), 8),)))


def done(claim: Claim) -> Transition:
    return settle(claim, Succeeded(), DEFAULTS, 0.0)


def hold(connection: Any, gate: str) -> None:
    connection.execute(STATEMENTS["lock_gates"].sql.encode(), {"gates": f'["{gate}"]'})


async def test_a_claim_leaves_alone_what_stands_before_a_gate_in_other_hands(postgres_url, store):
    await stored(store, "ab")
    with connect(postgres_url) as other:
        with other.transaction():
            hold(other, "limit:mail:a")
            caught = await asyncio.wait_for(claimed(store), 2)
            assert [claim.id for claim in caught.claims] == ["b1"]
            assert caught.next_due == pytest.approx(0.1), "and looks again soon"
        assert [claim.id for claim in (await claimed(store)).claims] == ["a0"]


async def test_an_end_waits_for_its_gate_and_nothing_is_lost(postgres_url, store):
    await stored(store, "aa")
    [first] = (await claimed(store)).claims
    with connect(postgres_url) as other:
        with other.transaction():
            hold(other, "limit:mail:a")
            ending = asyncio.ensure_future(store.write_all(apply, [done(first)]))
            _, waiting = await asyncio.wait([ending], timeout=0.2)
            assert waiting
        assert await ending == [True]
    assert [claim.id for claim in (await claimed(store)).claims] == ["a1"]


async def test_who_is_in_other_hands_is_passed_over_and_let_through_by_the_next_sweep(postgres_url, store):
    await stored(store, "aa")
    [first] = (await claimed(store)).claims
    with connect(postgres_url) as other, other.transaction():
        other.execute("SELECT n FROM job WHERE parked_on IS NOT NULL FOR UPDATE")
        assert await asyncio.wait_for(store.write_all(apply, [done(first)]), 2) == [True]
    assert (await claimed(store)).claims == []
    await store.write(upkeep.sweep, SweepRequest(every=10.0, patience=10.0))
    assert [claim.id for claim in (await claimed(store)).claims] == ["a1"]
