"""Every kind of notice that the catalogue of capabilities names (99), each brought about by what a user does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from standfast import Permanent, Transient
from standfast.testing import FrozenClock, drain
from standfast.testing.kit import InMemory
from tests.worker.theirs import plain

POLICY = """
version: v1
replay_rules:
  - {match: {labels: {ask: "yes"}}, decision: require_approval, approver_group: governance}
  - {match: {}, decision: allow}
"""
ELSEWHERE = frozenset({"depth_warning"})
"""Told by the sweeper; tested with the alerts."""
NAMED = frozenset(
    {
        *("enqueued", "claimed", "retry", "completed", "dead_letter", "depth_warning"),
        *("replayed", "held", "approved", "denied", "resolved"),
    }
)


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[InMemory]:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = InMemory(url, clock=FrozenClock())
    failing = {"later": Transient("not yet"), "never": Permanent("no")}

    @made.handler("mail")
    async def mail(job):
        if job.payload in failing and job.attempt == 1:
            raise failing[job.payload]

    async with made:
        yield made


async def test_every_kind_is_told_of_the_job_it_happened_to(sf: InMemory) -> None:
    await sf.policy.load(POLICY)
    ask = {"labels": {"ask": "yes"}, "requester": "zoe"}
    wanted: dict[str, dict[str, Any]] = {"repeated": {}, "replayed": {}, "resolved": {}, "approved": ask, "denied": ask}
    jobs = {}
    for name, options in wanted.items():
        payload = "later" if name == "repeated" else "never"
        jobs[name] = str((await sf.enqueue("mail", payload, **options)).id)
    await drain(sf)
    sf.clock.advance(60)
    letters = sf.dead_letters
    assert (await letters.replay(jobs["replayed"], by="ann"))["outcome"] == "replayed"
    await letters.resolve(jobs["resolved"], by="ann", reason="done by hand", result={"by": "hand"})
    approvals = [(await letters.replay(jobs[name], by="ann"))["approval"] for name in ("approved", "denied")]
    await sf.approvals.approve(approvals[0], by="bea", groups=["governance"])
    await sf.approvals.deny(approvals[1], by="bea", reason="no")
    await drain(sf)
    told = defaultdict(list)
    last = str((await sf.enqueue("other")).id)
    async for notice in sf.subscribe(NAMED, after=0):
        if notice.job == last:
            break
        told[notice.job].append(notice.kind)
    begun, letter = ["enqueued", "claimed"], ["enqueued", "claimed", "dead_letter"]
    assert {name: told[job] for name, job in jobs.items()} == {
        "repeated": [*begun, "retry", "claimed", "completed"],
        "replayed": [*letter, "replayed", "claimed", "completed"],
        "resolved": [*letter, "resolved"],
        "approved": [*letter, "held", "approved", "replayed", "claimed", "completed"],
        "denied": [*letter, "held", "dead_letter", "denied"],
    }
    assert {kind for kinds in told.values() for kind in kinds} == NAMED - ELSEWHERE


async def test_from_now_on_is_whatever_commits_from_now_on(used_postgres_url: str) -> None:
    """Also what began before: on PostgreSQL it gets its number when it is committed, not when it was written."""
    async with InMemory(used_postgres_url) as sf:
        await sf.enqueue("mail", 1)
        await sf.stats()
        with psycopg.connect(plain(used_postgres_url)) as theirs:
            begun = await sf.enqueue("mail", 2, tx=theirs)
            await sf.enqueue("mail", 3)
            reader = await sf.reader()
            theirs.commit()
        assert [notice.job for notice in await reader.more(15)] == [begun.id]
