"""Ends on one server: a round locks its jobs in one order, the short way or the long one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS
from standfast.spine.apply import apply
from standfast.store.store import Store
from standfast.worker.settling import settle
from tests.postgres import connect
from tests.store import behind
from tests.store.suite import claimed, enqueued, failed, new_job
from tests.waiting import seen

WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
LOCK = "SELECT 1 FROM job WHERE n = %s FOR UPDATE NOWAIT"


@pytest.fixture
def url(used_postgres_url: str) -> str:
    return used_postgres_url


@pytest.mark.parametrize("case", ["both complete", "one fails", "one was taken over"])
async def test_whoever_waits_for_a_job_holds_none_of_a_higher_number(store: Store, url, case):
    """Another process that has the first job and comes for the second would wait for whoever waits for the first."""
    await enqueued(store, new_job(), new_job())
    first, second = sorted(await claimed(store, slots=2), key=lambda claim: claim.n)
    if case == "one was taken over":
        behind.change(store, f"UPDATE job SET token = 2 WHERE n = {first.n}")  # noqa: S608 - a number of ours
    outcome: Any = failed() if case == "one fails" else Succeeded(None)
    ends = [settle(second, Succeeded(None), DEFAULTS, 0.0), settle(first, outcome, DEFAULTS, 0.0)]
    assert ends[0].plain
    with connect(url) as other, connect(url) as looking:
        with other.transaction():
            other.execute(LOCK, (first.n,))
            ending = store.write_all(apply, ends).start()
            await seen(lambda: looking.execute(WAITS).fetchall() != [(0,)], within=4)
            other.execute(LOCK, (second.n,))
        assert await asyncio.wait_for(ending, 10) == [True, case != "one was taken over"]
