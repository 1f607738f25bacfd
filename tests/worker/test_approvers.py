"""Who must approve, and who may not: also when a letter grows old, two rules want it, or somebody amended it."""

from __future__ import annotations

import pytest

from standfast import ConfigurationError, Permanent, Standfast
from standfast.errors import ApprovalRefused
from standfast.testing import drain
from tests.waiting import job_of
from tests.worker.governing import letter, redriver

AGING = """
version: v1
dlq_rules:
  - match: {age: "> 7d"}
    action: quarantine
  - match: {reason_code: denied}
    action: require_approval
    approver_group: governance
"""
TWO_GROUPS = """
version: v1
dlq_rules:
  - match: {reason_code: denied}
    action: require_approval
    approver_group: crm-owners
replay_rules:
  - match: {risk: high}
    decision: require_approval
    approver_group: governance
  - match: {}
    decision: allow
"""
LATER_TOO = """
version: v1
replay_rules:
  - match: {labels: {kind: asking}}
    decision: require_approval
    approver_group: crm-owners
  - match: {age: "> 1h"}
    decision: require_approval
    approver_group: governance
  - match: {}
    decision: allow
"""
GROWING = """
version: v1
replay_rules:
  - match: {age: "< 1h"}
    decision: require_approval
    approver_group: crm-owners
  - match: {}
    decision: require_approval
    approver_group: governance
"""


def refusing(sf: Standfast, **options) -> set[str]:
    """Declare a queue whose handler refuses everything while its name is in the set that is given back."""
    down = {"mail"}
    sf.queue("mail", attempts=1)

    @sf.handler("mail", **options)
    async def handle(_job):
        if down:
            raise Permanent("no", reason_code="denied")

    return down


async def test_an_approval_that_a_death_asked_for_is_needed_however_old_the_letter_grows(sf):
    refusing(sf)
    await sf.policy.load(AGING)
    job_id = await letter(sf)
    sf.clock.advance("8d")
    await redriver(sf).step()  # nobody answered in time
    assert (await job_of(sf, job_id)).state == "dead"
    answer = await sf.dead_letters.replay(job_id, by="rita")
    assert answer["outcome"] == "approval_required"
    assert (await sf.approvals.get(answer["approval"]))["approver_groups"] == ["governance"]
    plan = await sf.dead_letters.plan()
    assert (plan["need_approval"], plan["would_run"]) == (1, 0)


async def test_an_approver_must_be_in_the_groups_of_every_rule_that_wants_an_approval(sf):
    down = refusing(sf, risk="high")
    await sf.policy.load(TWO_GROUPS)
    job_id = await letter(sf)
    [asked] = await sf.approvals.list()
    assert asked["approver_groups"] == ["crm-owners", "governance"]
    for groups in (["crm-owners"], ["governance"], []):
        with pytest.raises(ApprovalRefused, match="is not in the group"):
            await sf.approvals.approve(asked["id"], by="bea", groups=groups)
    await sf.approvals.deny(asked["id"], by="bea", reason="not now")
    again = await sf.dead_letters.replay(job_id, by="alex")
    assert again["rule"] == "replay_rules#1, dlq_rules#1"
    assert (await sf.approvals.get(again["approval"]))["approver_groups"] == ["crm-owners", "governance"]
    down.clear()
    answer = await sf.approvals.approve(again["approval"], by="bea", groups=["governance", "crm-owners"])
    assert answer["outcome"] == "replayed"
    await drain(sf)
    assert (await job_of(sf, job_id)).state == "completed"


async def test_a_group_that_the_policy_wants_by_now_was_not_asked(sf):
    refusing(sf)
    await sf.policy.load(GROWING)
    job_id = await letter(sf)
    first = await sf.dead_letters.replay(job_id, by="alex")
    sf.clock.advance("2h")
    with pytest.raises(ApprovalRefused, match="the policy now requires approval by a member of the group governance"):
        await sf.approvals.approve(first["approval"], by="bea", groups=["crm-owners", "governance"])
    assert (await job_of(sf, job_id)).state == "dead"
    again = await sf.dead_letters.replay(job_id, by="alex")
    assert again["approval"] != first["approval"]
    assert (await sf.approvals.approve(again["approval"], by="bea", groups=["governance"]))["outcome"] == "replayed"


async def test_asking_again_asks_the_group_that_is_wanted_by_now(sf):
    refusing(sf)
    await sf.policy.load(GROWING)
    job_id = await letter(sf)
    first = await sf.dead_letters.replay(job_id, by="alex")
    sf.clock.advance("2h")
    again = await sf.dead_letters.replay(job_id, by="alex")
    assert again["approval"] != first["approval"]
    groups = (await sf.approvals.get(again["approval"]))["approver_groups"]
    assert groups == ["crm-owners", "governance"], "what it was held for stays wanted"


@pytest.mark.parametrize("later", ["governance", "crm-owners"])
async def test_the_approval_of_a_plan_is_for_the_letters_that_were_planned_to_need_it(sf, later):
    down = refusing(sf)
    await sf.policy.load(LATER_TOO.replace("governance", later))
    asking = await sf.enqueue("mail", {"n": 1}, labels={"kind": "asking"}, requester="rita")
    other = await sf.enqueue("mail", {"n": 2}, labels={"kind": "other"}, requester="bob")
    await drain(sf)
    plan = await sf.dead_letters.plan()
    assert (plan["need_approval"], plan["would_run"]) == (1, 1)
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga")
    sf.clock.advance("2h")  # now the other one needs an approval too, and bob requested it
    [approval] = await sf.approvals.list()
    await sf.approvals.approve(approval["id"], by="bob", groups=["crm-owners"])
    down.clear()
    for _ in range(2):
        await redriver(sf).step()
        await drain(sf)
    progress = await redrive.progress()
    assert (progress["state"], progress["completed"], progress["approval_required"]) == ("finished", 1, 1)
    assert [(await job_of(sf, each.id)).state for each in (asking, other)] == ["completed", "dead"]


async def test_the_approval_of_a_plan_is_for_its_groups_only(sf):
    refusing(sf)
    await sf.policy.load(GROWING)
    job_id = await letter(sf)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga")
    [approval] = await sf.approvals.list()
    await sf.approvals.approve(approval["id"], by="bea", groups=["crm-owners"])
    sf.clock.advance("2h")
    await redriver(sf).step()
    assert (await redrive.progress())["approval_required"] == 1
    assert (await job_of(sf, job_id)).state == "dead"


@pytest.mark.parametrize("bulk", [False, True])
async def test_whoever_amended_a_letter_may_not_approve_it(sf, bulk):
    refusing(sf)
    await sf.policy.load(GROWING)
    job_id = await letter(sf)
    await sf.dead_letters.amend(job_id, {"n": 1_000_000}, by="mallory", reason="a slip")
    if bulk:
        plan = await sf.dead_letters.plan()
        await sf.dead_letters.redrive(plan["token"], by="alex")
        [approval] = await sf.approvals.list()
    else:
        asked = await sf.dead_letters.replay(job_id, by="alex")
        approval = await sf.approvals.get(asked["approval"])
    with pytest.raises(ApprovalRefused, match="amended it"):
        await sf.approvals.approve(approval["id"], by="Mallory", groups=["crm-owners"])
    assert (await sf.approvals.approve(approval["id"], by="bea", groups=["crm-owners"]))["outcome"] != "denied"


async def test_whoever_amended_a_letter_may_not_approve_it_after_its_next_death(sf):
    refusing(sf)
    job_id = await letter(sf)
    await sf.dead_letters.amend(job_id, {"n": 2}, by="mallory", reason="a slip")
    await sf.dead_letters.replay(job_id, by="alex")
    await sf.policy.load(AGING)
    await drain(sf)
    [asked] = await sf.approvals.list()
    assert asked["asked_by"] is None
    with pytest.raises(ApprovalRefused, match="amended it"):
        await sf.approvals.approve(asked["id"], by="mallory", groups=["governance"])


@pytest.mark.parametrize("name", ["", None, 7, " ", "a\u200bnn", "x" * 3000])
async def test_every_word_is_somebodys(sf, name):
    refusing(sf)
    job_id = await letter(sf)
    plan = await sf.dead_letters.plan()
    dead = sf.dead_letters
    for verb in (
        lambda: dead.replay(job_id, by=name),
        lambda: dead.redrive(plan["token"], by=name),
        lambda: dead.resolve(job_id, by=name, reason="done", result={}),
        lambda: dead.discard(job_id, by=name, reason="done"),
        lambda: sf.approvals.approve("a", by=name),
        lambda: sf.approvals.deny("a", by=name, reason="no"),
    ):
        with pytest.raises(ConfigurationError, match="by must be a person's name"):
            await verb()
    assert (await job_of(sf, job_id)).state == "dead"


@pytest.mark.parametrize("reason", ["", " ", 7])
async def test_a_reason_says_something(sf, reason):
    refusing(sf)
    job_id = await letter(sf)
    plan = await sf.dead_letters.plan()
    for verb in (
        lambda: sf.dead_letters.replay(job_id, by="ann", reason=reason),
        lambda: sf.dead_letters.redrive(plan["token"], by="ann", reason=reason),
        lambda: sf.dead_letters.resolve(job_id, by="ann", reason=reason, result={}),
    ):
        with pytest.raises(ConfigurationError, match="reason must be text"):
            await verb()
    assert (await job_of(sf, job_id)).state == "dead"


async def test_who_asks_for_what_is_asked_for_already_may_not_answer_it_either(sf):
    """Whether the policy asked first, or somebody else did."""
    refusing(sf)
    await sf.policy.load(AGING)
    job_id = await letter(sf)
    [asked] = await sf.approvals.list()
    for person in ("alex", "bea"):
        assert (await sf.dead_letters.replay(job_id, by=person))["approval"] == asked["id"]
    for person in ("alex", "bea"):
        with pytest.raises(ApprovalRefused):
            await sf.approvals.approve(asked["id"], by=person, groups=["governance"])
    assert (await sf.approvals.approve(asked["id"], by="cleo", groups=["governance"]))["outcome"] == "replayed"
