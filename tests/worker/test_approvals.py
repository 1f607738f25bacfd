"""Approvals: who may answer, what an answer is bound to, and that nothing is lost between answer and replay."""

from __future__ import annotations

import asyncio

import pytest

from standfast import ConfigurationError, Effect, JobView, PolicyDenied, Standfast
from standfast.errors import ApprovalRefused, UnknownRequest
from standfast.testing import drain
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.scripts import ApprovalAnswer
from standfast.wings.approvals.verbs import LEAVE_TO_APPROVER
from standfast.wings.approvals.words import Answer, ApprovalState
from tests.store import behind
from tests.waiting import job_of
from tests.worker.governing import Rulebook, broken, govern, letter, redriver


@pytest.fixture
def book() -> Rulebook:
    return Rulebook("require_approval", "governance")


async def asked(sf, **more) -> tuple[str, str]:
    """Let a job die and ask for its replay; give its id and the approval's."""
    job_id = await letter(sf, **more)
    answer = await sf.dead_letters.replay(job_id, by="alex", reason="mended")
    assert answer["outcome"] == "approval_required"
    return job_id, answer["approval"]


def status(job: JobView) -> str:
    """Give where a letter is in its triage."""
    assert job.triage is not None
    return job.triage.replay_status


async def kinds(sf) -> list[tuple[str, str]]:
    return [(entry["kind"], entry["outcome"]) for entry in await sf.audit.entries()]


async def test_asking_holds_the_letter_and_approving_replays_it(sf, book):
    failing = broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    held = await job_of(sf, job_id)
    assert held.state == "held"
    assert held.triage is not None
    assert (held.triage.replay_status, held.triage.approver_group) == ("approval_pending", "governance")
    assert held.reason == "max_attempts"
    assert "waited for an approval from a member of governance" in await sf.explain(job_id)
    [waiting] = await sf.approvals.list()
    assert (waiting["id"], waiting["job"], waiting["asked_by"]) == (approval, job_id, "alex")
    assert waiting["approver_groups"] == ["governance"]
    assert await sf.approvals.list(queues=["other"]) == []
    assert await sf.approvals.list(queues=["other", waiting["queue"]], limit=1) == [waiting]
    failing.clear()
    answer = await sf.approvals.approve(approval, by="bea", groups=["governance"])
    assert (answer["outcome"], answer["job"]) == ("replayed", job_id)
    await drain(sf)
    assert (await job_of(sf, job_id)).state == "completed"
    assert await kinds(sf) == [("approve", "approved"), ("replay", "replayed")]
    assert (await sf.audit.verify())["ok"]
    assert await sf.approvals.list() == []
    assert (await sf.approvals.get(approval))["state"] == "used"


async def test_asking_again_gives_the_same_approval(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    answers = await asyncio.gather(*(sf.dead_letters.replay(job_id, by=f"person {n}") for n in range(8)))
    assert {answer["approval"] for answer in answers} == {approval}
    assert len(await sf.approvals.list(None)) == 1


async def test_many_who_ask_at_once_file_one(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id = await letter(sf)
    answers = await asyncio.gather(*(sf.dead_letters.replay(job_id, by=f"person {n}") for n in range(16)))
    [filed] = await sf.approvals.list(None)
    assert {answer["approval"] for answer in answers} == {filed["id"]}


@pytest.mark.parametrize(
    ("by", "groups", "why"),
    [
        ("alex", ["governance"], "asked for it"),
        (" ALEX ", ["governance"], "asked for it"),
        ("rita", ["governance"], "requested the work"),
        ("bea", [], "not in the group governance"),
        ("bea", ["others"], "not in the group governance"),
    ],
)
async def test_who_may_not_approve(sf, book, by, groups, why):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    with pytest.raises(ApprovalRefused, match=why):
        await sf.approvals.approve(approval, by=by, groups=groups)
    assert (await job_of(sf, job_id)).state == "held"
    assert [each["id"] for each in await sf.approvals.list()] == [approval]


async def test_groups_come_from_the_configuration_too(sf, book):
    broken(sf, "mail")
    govern(sf, book, bea=("governance",))
    _, approval = await asked(sf)
    assert (await sf.approvals.approve(approval, by="bea"))["outcome"] == "replayed"


async def test_an_answer_names_a_person_and_a_denial_its_reason(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    _, approval = await asked(sf)
    with pytest.raises(ConfigurationError, match="person"):
        await sf.approvals.approve(approval, by=" ", groups=["governance"])
    with pytest.raises(ConfigurationError, match="several names"):
        await sf.approvals.approve(approval, by="bea", groups="governance")
    with pytest.raises(ConfigurationError, match="reason"):
        await sf.approvals.deny(approval, by="bea", reason="")
    with pytest.raises(UnknownRequest):
        await sf.approvals.approve("nobody's", by="bea")
    assert len(await sf.approvals.list()) == 1


async def test_the_first_answer_wins_and_is_told_again(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    answers = await asyncio.gather(
        *(sf.approvals.approve(approval, by=f"person {n}", groups=["governance"]) for n in range(8))
    )
    assert {answer["outcome"] for answer in answers} == {"replayed"}
    assert (await sf.approvals.approve(approval, by="bea", groups=["governance"]))["outcome"] == "replayed"
    with pytest.raises(ApprovalRefused, match="approved it before"):
        await sf.approvals.deny(approval, by="dan", reason="no")
    assert (await job_of(sf, job_id)).replays == 1
    assert await kinds(sf) == [("approve", "approved"), ("replay", "replayed")]


async def test_a_denial_leaves_the_letter_dead_with_what_it_died_of(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id = await letter(sf)
    died = (await job_of(sf, job_id)).failure
    approval = (await sf.dead_letters.replay(job_id, by="alex"))["approval"]
    assert (await sf.approvals.deny(approval, by="bea", reason="not safe"))["outcome"] == "denied"
    dead = await job_of(sf, job_id)
    assert (dead.state, status(dead), dead.failure) == ("dead", "denied", died)
    last = dead.history[-1]
    assert (last.reason_code, last.by, last.reason) == ("denied", "bea", "not safe")
    assert (await sf.approvals.deny(approval, by="dan", reason="me too"))["why"] == "not safe"
    with pytest.raises(PolicyDenied, match="denied it before"):
        await sf.approvals.approve(approval, by="dan", groups=["governance"])
    assert await kinds(sf) == [("deny", "denied")]
    assert (await sf.dead_letters.replay(job_id, by="alex"))["approval"] != approval


async def test_what_nobody_answers_expires(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    sf.clock.advance(86399)
    await redriver(sf).step()
    assert (await job_of(sf, job_id)).state == "held"
    sf.clock.advance(2)
    with pytest.raises(ApprovalRefused, match="expired"):
        await sf.approvals.approve(approval, by="bea", groups=["governance"])
    await redriver(sf).step()
    dead = await job_of(sf, job_id)
    assert (dead.state, status(dead)) == ("dead", "pending_review")
    assert dead.history[-1].reason_code == "approval_expired"
    assert await kinds(sf) == [("deny", "expired")]
    assert (await sf.dead_letters.replay(job_id, by="alex"))["approval"] != approval


async def test_asking_again_after_the_time_is_over_files_a_new_one(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    sf.clock.advance(86401)
    again = (await sf.dead_letters.replay(job_id, by="alex"))["approval"]
    assert again != approval
    assert (await sf.approvals.approve(again, by="bea", groups=["governance"]))["outcome"] == "replayed"


async def test_a_policy_that_says_no_by_now_wins(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    book.decision = "deny"
    answer = await sf.approvals.approve(approval, by="bea", groups=["governance"])
    assert (answer["outcome"], answer["rule"]) == ("denied", "rule#1")
    assert (await job_of(sf, job_id)).state == "dead"
    assert (await job_of(sf, job_id)).replays == 0


async def test_another_policy_makes_it_void(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    book.snapshot = "second"
    with pytest.raises(ApprovalRefused, match="the policy changed"):
        await sf.approvals.approve(approval, by="bea", groups=["governance"])
    dead = await job_of(sf, job_id)
    assert (dead.state, status(dead)) == ("dead", "pending_review")
    assert (await sf.approvals.get(approval))["state"] == "void"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE body SET payload = '{\"n\":2}'", "its payload changed"),
        ("UPDATE body SET generation = 1", "its generation changed"),
        ("UPDATE job SET handler = 'other'", "its target changed"),
    ],
)
async def test_another_payload_or_target_makes_it_void(sf, book, change, why):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    behind.change(sf._store, change)  # noqa: SLF001 - what no verb does yet
    with pytest.raises(ApprovalRefused, match=why):
        await sf.approvals.approve(approval, by="bea", groups=["governance"])
    assert (await job_of(sf, job_id)).state == "dead"


async def test_a_letter_that_goes_another_way_takes_its_approval_along(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    await sf.dead_letters.resolve(job_id, by="dan", reason="done by hand", result=1)
    with pytest.raises(ApprovalRefused, match="went another way"):
        await sf.approvals.approve(approval, by="bea", groups=["governance"])


async def test_what_was_approved_and_did_not_start_is_carried_out_by_any_worker(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    said = ApprovalAnswer(Answer(approval, ApprovalState.PENDING, ApprovalState.APPROVED, "bea"))
    assert await sf._store.write(approvals.answer, said)  # noqa: SLF001 - as if the approver's process had died right then
    await redriver(sf).step()
    assert (await job_of(sf, job_id)).state == "held"
    sf.clock.advance(LEAVE_TO_APPROVER + 1)
    await asyncio.gather(*(redriver(sf, f"worker-{n}").step() for n in range(4)))
    job = await job_of(sf, job_id)
    assert (job.state, job.replays, job.history[-1].by) == ("queued", 1, "bea")
    assert (await sf.approvals.get(approval))["state"] == "used"


async def test_what_was_approved_and_changed_before_it_started_is_void(sf, book):
    broken(sf, "mail")
    govern(sf, book)
    job_id, approval = await asked(sf)
    await sf._store.write(  # noqa: SLF001
        approvals.answer, ApprovalAnswer(Answer(approval, ApprovalState.PENDING, ApprovalState.APPROVED, "bea"))
    )
    book.snapshot = "second"
    sf.clock.advance(LEAVE_TO_APPROVER + 1)
    await redriver(sf).step()
    assert (await job_of(sf, job_id)).state == "dead"
    assert (await sf.approvals.get(approval))["state"] == "void"


async def test_an_approval_survives_a_restart(url, book):
    async with Standfast(url) as sf:
        broken(sf, "mail")
        govern(sf, book)
        job_id, approval = await asked(sf)
    async with Standfast(url) as again:
        govern(again, book)
        assert (await again.approvals.approve(approval, by="bea", groups=["governance"]))["outcome"] == "replayed"
        assert (await job_of(again, job_id)).state == "queued"


async def test_an_effect_that_is_there_is_not_done_again(sf, book):
    async def there(_job):
        return True

    sf.queue("mail", attempts=1)

    @sf.handler("mail", effects=[Effect("ticket", there)])
    async def mail(_job):
        return {"success": False, "error": "no", "error_kind": "validation"}

    govern(sf, book)
    job_id = await letter(sf)
    answer = await sf.dead_letters.replay(job_id, by="alex")
    assert answer["outcome"] == "resolved"
    assert await sf.approvals.list(None) == []
