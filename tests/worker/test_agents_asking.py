"""What an agent asks for, where doing it again could do it twice, waits for a person, whatever the policy allows."""

from __future__ import annotations

import pytest

from standfast import Permanent, Standfast, Uncertain
from standfast.errors import PlanDrifted
from standfast.testing import drain
from tests.waiting import job_of
from tests.worker.governing import redriver

AGENT = {"by": "planner", "session": "agent:planner"}


def declared(sf: Standfast) -> set[str]:
    """Declare handlers that fail while their name is in the set that is given back."""
    failing = {"manual", "unsure", "plain"}
    errors = {"manual": Permanent("no"), "unsure": Uncertain("who knows"), "plain": Permanent("no")}
    for name in sorted(failing):
        sf.queue(name, attempts=1)

        @sf.handler(name, replay="manual" if name == "manual" else "replay")
        async def handle(job):
            if job.queue in failing:
                raise errors[job.queue]

    return failing


async def dead(sf: Standfast, queue: str) -> str:
    receipt = await sf.enqueue(queue, 1, requester="rita")
    await drain(sf)
    return str(receipt.id)


@pytest.mark.parametrize("queue", ["manual", "unsure"])
async def test_an_agents_retry_of_what_may_be_done_twice_waits_for_a_person(sf, queue):
    failing = declared(sf)
    letter = await dead(sf, queue)
    reply = await sf.retry(letter, session="agent:planner")
    assert (reply["status"], reply["reason_code"]) == ("held", "approval_required")
    asked = await sf.dead_letters.replay(letter, reason="again", **AGENT)
    assert (asked["outcome"], asked["rule"]) == ("approval_required", "asked by an agent")
    assert asked["approval"] == reply["approval"]
    failing.clear()
    await sf.approvals.approve(asked["approval"], by="bea")
    await drain(sf)
    assert (await job_of(sf, letter)).state == "completed"


async def test_an_agent_has_what_cannot_be_done_twice_run_again_at_once(sf):
    declared(sf)
    letter = await dead(sf, "plain")
    assert (await sf.dead_letters.replay(letter, **AGENT))["outcome"] == "replayed"


async def test_a_person_is_not_bound_by_what_an_agent_asked_for(sf):
    declared(sf)
    letter = await dead(sf, "manual")
    asked = await sf.dead_letters.replay(letter, **AGENT)
    assert (await sf.dead_letters.replay(letter, by="olga"))["outcome"] == "replayed"
    assert (await sf.approvals.get(asked["approval"]))["state"] == "void"


async def test_a_policy_that_denies_is_not_softened_by_an_approval(sf):
    declared(sf)
    await sf.policy.load("version: v1\nreplay_rules:\n  - {match: {}, decision: deny}\n")
    letter = await dead(sf, "manual")
    assert (await sf.dead_letters.replay(letter, **AGENT))["outcome"] == "denied"


async def test_an_agents_redrive_waits_for_a_person_too(sf):
    failing = declared(sf)
    letters = [await dead(sf, queue) for queue in ("manual", "unsure", "plain")]
    plan = await sf.dead_letters.plan(session="agent:planner")
    assert (plan["need_approval"], plan["would_run"]) == (2, 1)
    await sf.dead_letters.redrive(plan["token"], **AGENT)
    await redriver(sf).step()
    assert [(await job_of(sf, each)).state for each in letters] == ["dead"] * 3
    [approval] = await sf.approvals.list()
    failing.clear()
    await sf.approvals.approve(approval["id"], by="bea")
    await redriver(sf).step()
    await drain(sf)
    assert [(await job_of(sf, each)).state for each in letters] == ["completed"] * 3


async def test_an_agent_carries_out_no_plan_that_a_person_made(sf):
    declared(sf)
    await dead(sf, "manual")
    plan = await sf.dead_letters.plan()
    with pytest.raises(PlanDrifted, match="made for a person"):
        await sf.dead_letters.redrive(plan["token"], **AGENT)
