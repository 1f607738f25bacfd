"""Whose a job is that took others in: it keeps its owner, its session and the highest risk of all."""

from __future__ import annotations

import pytest

from standfast import Permanent, Standfast
from standfast.errors import ApprovalRefused
from standfast.rules import Coalesce
from standfast.testing import drain
from tests.waiting import job_of

ASKING = """
version: v1
replay_rules:
  - match: {}
    decision: require_approval
"""


def declared(sf: Standfast, coalesce: Coalesce = "latest", **options) -> list[tuple[object, str | None]]:
    """Declare a queue that notes what it ran with; give the notes."""
    ran: list[tuple[object, str | None]] = []
    sf.queue("notes", coalesce=coalesce, attempts=1)

    @sf.handler("notes", **options)
    async def handle(job):
        ran.append((job.payload, job.session))
        raise Permanent("no")

    return ran


@pytest.mark.parametrize("coalesce", ["latest", "collect"])
async def test_a_newcomer_lowers_no_risk_and_takes_over_no_owner(sf, coalesce):
    declared(sf, coalesce)
    first = await sf.enqueue(
        "notes", 1, thread_key="t", risk="critical", session="agent:a", requester="ann", labels={"kind": "a", "by": "a"}
    )
    second = await sf.enqueue(
        "notes", 2, thread_key="t", risk="low", session="agent:b", requester="bob", labels={"by": "b"}
    )
    assert (second.id, second.outcome) == (first.id, "coalesced")
    job = await job_of(sf, first.id)
    assert job.payload == (2 if coalesce == "latest" else [1, 2])
    assert (job.risk, job.session, job.requester) == ("critical", "agent:a", "ann")
    assert job.requesters == ["ann", "bob"]
    assert job.labels == {"kind": "a", "by": "b"}


async def test_a_newcomer_raises_the_risk(sf):
    declared(sf)
    first = await sf.enqueue("notes", 1, thread_key="t", requester="ann")
    await sf.enqueue("notes", 2, thread_key="t", risk="high", requester="ann")
    job = await job_of(sf, first.id)
    assert (job.risk, job.requesters) == ("high", ["ann"])


@pytest.mark.parametrize("asking", ["ann", "bob"])
async def test_nobody_who_asked_for_a_coalesced_job_approves_it(sf, asking):
    declared(sf)
    await sf.policy.load(ASKING)
    first = await sf.enqueue("notes", 1, thread_key="t", requester="ann")
    await sf.enqueue("notes", 2, thread_key="t", requester="bob")
    await drain(sf)
    asked = await sf.dead_letters.replay(first.id, by="olga")
    with pytest.raises(ApprovalRefused, match="requested the work"):
        await sf.approvals.approve(asked["approval"], by=asking)
    assert (await sf.approvals.approve(asked["approval"], by="cleo"))["outcome"] == "replayed"


async def test_a_payload_never_runs_under_the_consent_of_another_session(sf):
    ran = declared(sf, consent=True)
    await sf.consent.grant("agent:a", "notes", mode="always", by="ann")
    first = await sf.enqueue("notes", "mine", thread_key="t", session="agent:a")
    second = await sf.enqueue("notes", "smuggled", thread_key="t", session="agent:b")
    assert (second.outcome, second.id != first.id) == ("accepted", True)
    await drain(sf)
    assert ran == [("mine", "agent:a")]
    assert (await job_of(sf, second.id)).reason == "consent_required"


async def test_one_session_still_coalesces_where_consent_is_asked(sf):
    ran = declared(sf, consent=True)
    await sf.consent.grant("agent:a", "notes", mode="always", by="ann")
    first = await sf.enqueue("notes", 1, thread_key="t", session="agent:a")
    assert (await sf.enqueue("notes", 2, thread_key="t", session="agent:a")).id == first.id
    await drain(sf)
    assert ran == [(2, "agent:a")]


async def test_the_end_of_a_coalesced_job_is_told_to_the_session_it_belongs_to(sf):
    declared(sf)
    first = await sf.enqueue("notes", 1, thread_key="t", session="agent:a")
    await sf.enqueue("notes", 2, thread_key="t", session="agent:b")
    await drain(sf)
    assert [message["job_id"] for message in await sf.inbox.list("agent:a")] == [first.id]
    assert await sf.inbox.list("agent:b") == []


async def test_everybody_who_asked_stays_a_requester_in_another_store(sf, tmp_path):
    declared(sf)
    first = await sf.enqueue("notes", 1, thread_key="t", requester="ann")
    await sf.enqueue("notes", 2, thread_key="t", requester="bob")
    await drain(sf)
    await sf.dead_letters.export(tmp_path / "letters.jsonl", by="olga")
    async with Standfast(":memory:") as other:
        await other.dead_letters.import_(tmp_path / "letters.jsonl", by="olga", reason="moved")
        assert (await job_of(other, first.id)).requesters == ["ann", "bob"]
