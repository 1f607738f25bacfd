"""Decisions that something overtakes before they are written: another policy, a cancel, another worker, a purge."""

from __future__ import annotations

import asyncio

import pytest

from standfast import Effect, Permanent, Standfast, Transient
from standfast.errors import ApprovalRefused, NotALetter
from standfast.testing import drain
from standfast.wings.letters import verbs as letters_module
from standfast.wings.redrives import scripts as redrive_scripts
from standfast.wings.redrives import verbs as redrives_module
from standfast.wings.redrives.verbs import DRIVEN_FOR
from tests.between import between
from tests.store import behind
from tests.waiting import job_of, seen
from tests.worker.governing import broken, letter, redriver
from tests.worker.inside import store_of

ALLOW = "version: v1\nreplay_rules:\n  - match: {}\n    decision: allow\n"
DENY = "version: v1\nreplay_rules:\n  - match: {}\n    decision: deny\n    why: frozen\n"
ASK = "version: v1\nreplay_rules:\n  - match: {}\n    decision: require_approval\n"
AUTO = """
version: v1
dlq_rules:
  - match: {}
    action: auto_replay
    max_replays: 1
    backoff: none
replay_rules:
  - match: {}
    decision: allow
"""


class Checked:
    """A queue whose effects are looked at; once `slow`, a look takes until the test lets it go."""

    def __init__(self, sf: Standfast, error: type[Exception] = Permanent) -> None:
        self.slow = False
        self.looks = 0
        self.go_on = asyncio.Event()
        self.runs = 0
        sf.queue("mail", attempts=1)

        @sf.handler("mail", replay="verify_first", effects=[Effect("ticket", self.look)])
        async def handle(_job):
            self.runs += 1
            raise error("again")

    async def look(self, _job) -> bool:
        self.looks += 1
        if self.slow:
            await self.go_on.wait()
        return False


async def died(sf, number: int = 1) -> list[str]:
    receipts = await sf.enqueue_many("mail", [{"n": n} for n in range(number)], requester="rita")
    await drain(sf)
    return [receipt.id for receipt in receipts]


async def redriven(sf, **course):
    plan = await sf.dead_letters.plan()
    return await sf.dead_letters.redrive(plan["token"], by="olga", **course)


async def turns(sf) -> list[tuple[str, str]]:
    return [(entry["kind"], entry["outcome"]) for entry in await sf.audit.entries() if entry["kind"] != "policy"]


# --- the policy


async def test_a_policy_that_comes_into_force_before_the_replay_is_written_decides(sf):
    broken(sf, "mail")
    await sf.policy.load(ALLOW)
    job_id = await letter(sf)
    meanwhile = [DENY]

    async def slow(_facts):
        for policy in meanwhile:
            await sf.policy.load(policy)
        meanwhile.clear()
        return "allow"

    sf.policy.use(slow)
    answer = await sf.dead_letters.replay(job_id, by="ann")
    assert (answer["outcome"], answer["why"]) == ("denied", "frozen")
    assert (await job_of(sf, job_id)).replays == 0


async def test_a_policy_that_always_changes_is_not_asked_for_ever(sf):
    broken(sf, "mail")
    job_id = await letter(sf)
    asked = []

    async def slow(_facts):
        asked.append(1)
        await sf.policy.load(ALLOW.replace("{}", f"{{attempts: '>= {len(asked) % 2}'}}"))
        return "allow"

    sf.policy.use(slow)
    with pytest.raises(NotALetter, match="the policy kept changing"):
        await sf.dead_letters.replay(job_id, by="ann")
    assert len(asked) == letters_module.TRIES
    assert (await job_of(sf, job_id)).state == "dead"


async def test_a_policy_that_comes_into_force_before_an_approved_replay_is_written_decides(sf):
    mail = Checked(sf)
    await sf.policy.load(ASK)
    [job_id] = await died(sf)
    asked = await sf.dead_letters.replay(job_id, by="alex")
    mail.slow, mail.looks = True, 0
    approving = asyncio.create_task(sf.approvals.approve(asked["approval"], by="bea"))
    await seen(lambda: mail.looks == 1)
    await sf.policy.load(DENY)
    mail.go_on.set()
    answer = await approving
    assert (answer["outcome"], (await job_of(sf, job_id)).state) == ("void", "dead")
    assert (await job_of(sf, job_id)).replays == 0


async def test_a_redrive_decides_anew_under_a_policy_that_came_meanwhile(sf):
    mail = Checked(sf)
    await sf.policy.load(ALLOW)
    ids = await died(sf, 2)
    redrive = await redriven(sf)
    mail.slow = True
    step = asyncio.create_task(redriver(sf).step())
    await seen(lambda: mail.looks == 2)
    await sf.policy.load(DENY)
    mail.go_on.set()
    await step
    assert (await redrive.progress())["denied"] == 2
    assert {(await job_of(sf, each)).replays for each in ids} == {0}


# --- who drives


async def test_what_was_cancelled_replays_nothing_more(sf):
    mail = Checked(sf)
    ids = await died(sf, 3)
    redrive = await redriven(sf)
    mail.slow = True
    step = asyncio.create_task(redriver(sf).step())
    await seen(lambda: mail.looks == 3)
    await redrive.cancel()
    mail.go_on.set()
    await step
    progress = await redrive.progress()
    assert (progress["state"], progress["waiting"], progress["drifted"]) == ("cancelled", 3, 0)
    assert {(await job_of(sf, each)).state for each in ids} == {"dead"}


async def test_what_was_paused_while_it_looked_goes_on_afterwards(sf):
    mail = Checked(sf)
    await died(sf, 2)
    redrive = await redriven(sf)
    mail.slow = True
    step = asyncio.create_task(redriver(sf).step())
    await seen(lambda: mail.looks == 2)
    await redrive.pause()
    mail.go_on.set()
    await step
    assert (await redrive.progress())["waiting"] == 2
    await redrive.resume()
    await redriver(sf).step()
    assert (await redrive.progress())["running"] == 2


async def test_whoever_was_taken_over_moves_nothing_and_marks_nothing(sf):
    mail = Checked(sf)
    await died(sf, 4)
    redrive = await redriven(sf, canary=2, halt_on=0.5)
    mail.slow, mail.runs = True, 0
    first = asyncio.create_task(redriver(sf, "one").step())
    await seen(lambda: mail.looks == 2)
    sf.clock.advance(DRIVEN_FOR + 1)  # it could not say that it still drives
    mail.slow = False
    await redriver(sf, "two").step()
    await drain(sf)
    mail.go_on.set()
    await first
    progress = await redrive.progress()
    assert (progress["running"], progress["waiting"], progress["drifted"]) == (2, 2, 0)
    sf.clock.advance(DRIVEN_FOR + 1)
    await redriver(sf, "two").step()
    progress = await redrive.progress()
    assert (progress["state"], progress["failed"], progress["waiting"], mail.runs) == ("halted", 2, 2, 2)


async def test_a_driver_that_looks_for_long_is_not_taken_over(sf, monkeypatch):
    monkeypatch.setattr(redrives_module, "SAY_SO_EVERY", 0.01)
    mail = Checked(sf)
    await died(sf, 2)
    redrive = await redriven(sf)
    mail.slow = True
    step = asyncio.create_task(redriver(sf, "one").step())
    await seen(lambda: mail.looks == 2)
    said = []

    async def noted(_orders, planned):
        said.append(await planned)

    between(store_of(sf), redrive_scripts.advance, noted, monkeypatch.setattr)
    for _ in range(4):
        sf.clock.advance(DRIVEN_FOR * 0.9)
        said.clear()
        await seen(lambda: len(said) > 1)  # one that began after the clock went on
        await redriver(sf, "two").drive()
    assert mail.looks == 2, "nobody else took it"
    monkeypatch.undo()
    mail.go_on.set()
    await step
    assert (await redrive.progress())["running"] == 2


# --- approvals of redrives


async def test_cancelling_a_redrive_voids_its_approval(sf):
    broken(sf, "mail")
    await sf.policy.load(ASK)
    await letter(sf)
    redrive = await redriven(sf)
    [approval] = await sf.approvals.list()
    await redrive.cancel()
    with pytest.raises(ApprovalRefused, match="its redrive was cancelled"):
        await sf.approvals.approve(approval["id"], by="bea")
    assert (await redrive.progress())["state"] == "cancelled"
    assert (await sf.approvals.get(approval["id"]))["state"] == "void"


async def test_a_redrive_that_waits_for_no_approval_is_not_started_by_one(sf):
    broken(sf, "mail")
    await sf.policy.load(ASK)
    await letter(sf)
    redrive = await redriven(sf)
    [approval] = await sf.approvals.list()
    behind.change(sf._store, "UPDATE redrive SET state = 'cancelled'")  # noqa: SLF001 - as a version before left it
    with pytest.raises(ApprovalRefused, match="its redrive is cancelled"):
        await sf.approvals.approve(approval["id"], by="bea")
    assert (await redrive.progress())["state"] == "cancelled"
    assert ("approve", "approved") not in await turns(sf)


async def test_every_turn_of_a_redrive_is_chained_and_told(sf):
    broken(sf, "mail")
    await sf.policy.load(ASK)
    await letter(sf)
    await redriven(sf)
    [approval] = await sf.approvals.list()
    await sf.policy.load(ASK.replace("{}", "{queue: mail}"))
    with pytest.raises(ApprovalRefused, match="the policy changed"):
        await sf.approvals.approve(approval["id"], by="bea")
    await redriven(sf)
    [second] = await sf.approvals.list()
    await sf.approvals.deny(second["id"], by="bea", reason="no")
    await redriven(sf)
    [third] = await sf.approvals.list()
    await sf.approvals.approve(third["id"], by="bea")
    assert await turns(sf) == [
        ("redrive", "approval_required"),
        ("deny", "void"),
        ("redrive", "cancelled"),
        ("redrive", "approval_required"),
        ("deny", "denied"),
        ("redrive", "cancelled"),
        ("redrive", "approval_required"),
        ("approve", "approved"),
        ("redrive", "started"),
    ]
    told = []
    async for notice in sf.subscribe(["redrive_cancelled", "redrive_started", "redrive_approval_required"], after=0):
        told.append(notice.kind)
        if len(told) == 6:
            break
    assert told.count("redrive_cancelled") == 2
    assert told.count("redrive_started") == 1


# --- what becomes of its letters


async def test_a_letter_that_is_purged_when_it_stopped_again_has_failed(sf):
    broken(sf, "mail")
    for _ in range(4):
        await letter(sf)
    redrive = await redriven(sf, canary=2, halt_on=0.5)
    await redriver(sf).step()
    await drain(sf)
    await sf.dead_letters.purge({}, by="ann", reason="clean", confirm=4)
    await redriver(sf).step()
    progress = await redrive.progress()
    assert (progress["state"], progress["failed"], progress["completed"]) == ("halted", 2, 0)


async def test_the_progress_of_a_cancelled_redrive_settles(sf):
    failing = broken(sf, "mail", "post")
    await letter(sf, "mail")
    await letter(sf, "post")
    redrive = await redriven(sf)
    await redriver(sf).step()
    await redrive.cancel()
    assert (await redrive.progress())["running"] == 2
    failing.discard("post")
    await drain(sf)
    progress = await redrive.progress()
    assert (progress["state"], progress["running"], progress["failed"], progress["completed"]) == ("cancelled", 0, 1, 1)


async def test_a_redrive_leaves_alone_what_is_set_apart_unless_it_is_asked_for(sf):
    broken(sf, "mail")
    apart, other = await letter(sf), await letter(sf)
    await sf.dead_letters.quarantine(apart, by="ann", reason="mine")
    plan = await sf.dead_letters.plan({"queue": "mail"})
    assert (plan["letters"], plan["would_run"], plan["quarantined"]) == (1, 1, 1)
    await sf.dead_letters.redrive(plan["token"], by="olga")
    await redriver(sf).step()
    assert [(await job_of(sf, each)).state for each in (apart, other)] == ["dead", "queued"]
    plan = await sf.dead_letters.plan({"replay_status": "quarantined"})
    assert (plan["letters"], plan["quarantined"]) == (1, 0)


# --- automatic replays


async def test_automatic_replays_are_looked_at_by_one_worker_side_by_side(sf):
    mail = Checked(sf, Transient)
    await sf.enqueue_many("mail", [{"n": n} for n in range(5)])
    await sf.policy.load(AUTO)
    mail.slow = True
    draining = asyncio.create_task(drain(sf))
    await seen(lambda: mail.looks == 5)
    assert await redriver(sf, "two").replays_due() == 0
    assert mail.looks == 5
    mail.go_on.set()
    await draining
    assert {job.replays for job in await sf.jobs()} == {1}


async def test_a_redrive_does_not_wait_for_automatic_replays(sf):
    mail = Checked(sf, Transient)
    failing = broken(sf, "post")
    await letter(sf, "post")
    failing.clear()
    redrive = await redriven(sf)
    await sf.policy.load(AUTO)
    mail.slow = True
    await sf.enqueue("mail", {})
    draining = asyncio.create_task(drain(sf))
    await seen(lambda: mail.looks == 1)
    await redriver(sf, "two").drive()
    assert (await redrive.progress())["running"] == 1
    mail.go_on.set()
    await draining
