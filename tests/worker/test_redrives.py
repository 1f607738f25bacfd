"""Redrives: exactly the plan, a canary first, halted by failures, and rows that any worker goes on with."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest

from standfast import ConfigurationError, Effect, Permanent
from standfast.errors import ApprovalRefused, PlanDrifted, UnknownRequest
from standfast.store.steps import Script
from standfast.testing import drain
from standfast.wings.redrives import plans, redrive_reads
from standfast.wings.redrives.verbs import DRIVEN_FOR
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.waiting import job_of
from tests.worker.governing import Rulebook, broken, govern, letter, redriver
from tests.worker.inside import store_of


async def letters(sf, queue: str, number: int, **options) -> list[str]:
    """Let so many jobs of a queue die."""
    receipts = await sf.enqueue_many(queue, [{"n": n} for n in range(number)], requester="rita", **options)
    await drain(sf)
    return [receipt.id for receipt in receipts]


async def driven(sf, name: str = "worker-1") -> None:
    """Take every redrive one step, and run what it released."""
    await redriver(sf, name).step()
    await drain(sf)


def counts(progress: dict[str, Any]) -> dict[str, int]:
    """Give the numbers that are not zero."""
    names = ("waiting", "running", "completed", "failed", "resolved", "denied", "approval_required", "drifted")
    return {name: progress[name] for name in names if progress[name]}


def rows_of(plan: str) -> Script[list[tuple[Any, ...]]]:
    """Read the letters of a plan."""
    return (yield "next_redriven", {"redrive": plan, "limit": 1000})


async def test_a_plan_tells_what_would_happen_and_changes_nothing(sf):
    book = Rulebook()
    broken(sf, "mail", "pay", "audited")
    govern(sf, book)
    book.queues = {"pay": "deny", "audited": "require_approval"}
    for queue, number in (("mail", 3), ("pay", 2), ("audited", 1)):
        await letters(sf, queue, number)
    before = [job.state for job in await sf.jobs()]
    plan = await sf.dead_letters.plan()
    token = plan.pop("token")
    assert plan == {
        "letters": 6,
        "would_run": 3,
        "already_landed": 0,
        "need_approval": 1,
        "need_consent": 0,
        "denied": 2,
        "unchecked": 4,
        "moved_on": 0,
        "quarantined": 0,
    }
    assert [job.state for job in await sf.jobs()] == before
    assert (await sf.dead_letters.plan({"queue": "mail"}))["letters"] == 3
    with pytest.raises(ConfigurationError, match="filter"):
        await sf.dead_letters.plan({"kew": "mail"})
    with pytest.raises(UnknownRequest):
        await sf.dead_letters.redrives.progress(token)


async def test_a_plan_of_large_letters_holds_few_of_them_at_a_time(sf):
    size, number = 100_000, 300
    broken(sf, "mail")
    await sf.enqueue_many("mail", [{"n": n, "text": "x" * size} for n in range(number)])
    await drain(sf)
    tracemalloc.start()
    try:
        plan = await sf.dead_letters.plan({"queue": "mail"})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (plan["letters"], plan["would_run"]) == (number, number)
    assert most < number * size * 0.8, f"{most >> 20} MB for {number * size >> 20} MB of letters"


async def test_a_plan_of_many_pages_is_that_of_one(sf, monkeypatch):
    """Whatever is summed up over letters is summed up over pages."""
    book = Rulebook()
    broken(sf, "mail", "audited")
    govern(sf, book)
    book.queues = {"audited": "require_approval"}
    for queue in ("mail", "audited", "mail", "audited"):
        await letters(sf, queue, 3)
    quarantined = (await sf.dead_letters.list({"queue": "mail"}))[0].id
    await sf.dead_letters.quarantine(quarantined, by="olga", reason="odd")
    whole = await sf.dead_letters.plan()
    for name in ("SMALLEST_PAGE", "FIRST_PAGE", "LARGEST_PAGE"):
        monkeypatch.setattr(plans, name, 2)
    paged = await sf.dead_letters.plan()
    tokens = [each.pop("token") for each in (whole, paged)]
    assert whole == paged
    assert (whole["letters"], whole["need_approval"], whole["quarantined"]) == (11, 6, 1)
    found = [await store_of(sf).read(redrive_reads.one(token)) for token in tokens]
    one, other = [each[0] for each in found if each is not None]
    assert (one.foreseen, one.snapshot) == (other.foreseen, other.snapshot)
    one_rows, other_rows = [await store_of(sf).read(rows_of(token)) for token in tokens]
    assert one_rows == other_rows


async def test_a_plan_knows_what_landed_and_whose_thread_moved_on(sf):
    failing = True

    async def look(_job):
        return False

    sf.queue("mail", attempts=1, coalesce="never")

    @sf.handler("mail", effects=[Effect("ticket", look)], when_landed="complete")
    async def mail(job):
        if job.payload.get("ticket"):
            async with job.effect("ticket") as ticket:
                ticket.record({"id": 7})
        if failing:
            raise Permanent("no")

    await sf.enqueue("mail", {"ticket": True})
    await sf.enqueue("mail", {}, thread_key="t")
    await drain(sf)
    failing = False
    await sf.enqueue("mail", {}, thread_key="t")
    await drain(sf)
    plan = await sf.dead_letters.plan()
    assert (plan["letters"], plan["already_landed"], plan["would_run"], plan["moved_on"]) == (2, 1, 1, 1)
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga")
    await driven(sf)
    await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("finished", {"completed": 1, "resolved": 1})


async def test_a_redrive_does_exactly_its_plan(sf):
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    planned = await letters(sf, "mail", 5)
    plan = await sf.dead_letters.plan({"queue": "mail"})
    [late] = await letters(sf, "mail", 1)
    failing.clear()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", reason="mended")
    await driven(sf)
    await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], progress["by"], counts(progress)) == ("finished", "olga", {"completed": 5})
    assert {(await job_of(sf, each)).state for each in planned} == {"completed"}
    assert (await job_of(sf, late)).state == "dead"
    assert (await job_of(sf, planned[0])).history[-1].by == "olga"
    decided = [(entry["kind"], entry["outcome"]) for entry in await sf.audit.entries()]
    assert decided == [("redrive", "started"), *[("replay", "replayed")] * 5, ("redrive", "finished")]
    assert (await sf.audit.verify())["ok"]


async def test_a_plan_that_is_being_forgotten_is_unknown(sf):
    """Pruning deletes a large plan in bites: its rest must not start as if it were the whole."""
    broken(sf, "mail")
    await letters(sf, "mail", 4)
    plan = await sf.dead_letters.plan()
    sf.clock.advance("25h")
    assert await store_of(sf).write(upkeep.prune, PruneRequest(limit=3))
    with pytest.raises(UnknownRequest):
        await sf.dead_letters.redrive(plan["token"], by="olga")
    assert await sf.dead_letters.redrives.list() == []


async def test_a_plan_that_drifted_is_reported_and_nothing_starts(sf):
    broken(sf, "mail")
    govern(sf, Rulebook())
    first, second = await letters(sf, "mail", 2)
    plan = await sf.dead_letters.plan()
    await sf.dead_letters.resolve(first, by="olga", reason="done by hand", result=None)
    with pytest.raises(PlanDrifted, match=f"1 of the letters .* {first} is completed"):
        await sf.dead_letters.redrive(plan["token"], by="olga")
    assert (await job_of(sf, second)).state == "dead"
    assert not await redriver(sf).step()


async def test_a_letter_that_died_again_is_another_letter(sf):
    broken(sf, "mail")
    govern(sf, Rulebook())
    job_id = await letter(sf)
    plan = await sf.dead_letters.plan()
    await sf.dead_letters.replay(job_id, by="olga")
    await drain(sf)
    with pytest.raises(PlanDrifted):
        await sf.dead_letters.redrive(plan["token"], by="olga")


async def test_another_policy_is_drift_too(sf):
    book = Rulebook()
    broken(sf, "mail")
    govern(sf, book)
    await letter(sf)
    plan = await sf.dead_letters.plan()
    book.snapshot = "second"
    with pytest.raises(PlanDrifted, match="policy"):
        await sf.dead_letters.redrive(plan["token"], by="olga")


async def test_starting_twice_is_one_redrive(sf):
    broken(sf, "mail").clear()
    govern(sf, Rulebook())
    plan = await sf.dead_letters.plan()
    one, other = await asyncio.gather(*(sf.dead_letters.redrive(plan["token"], by=by) for by in ("olga", "otto")))
    assert one.id == other.id
    with pytest.raises(ConfigurationError, match="another rate"):
        await sf.dead_letters.redrive(plan["token"], by="olga", canary=2)
    assert len(await sf.dead_letters.redrives.list()) == 1


@pytest.mark.parametrize(
    "course",
    [
        {"rate": "fast"},
        {"rate": 0},
        {"rate": {"limit": 1}},
        {"canary": -1},
        {"canary": True},
        {"halt_on": 2},
        {"halt_on": "half"},
    ],
)
async def test_a_course_that_cannot_be_is_refused(sf, course):
    govern(sf, Rulebook())
    plan = await sf.dead_letters.plan()
    with pytest.raises(ConfigurationError):
        await sf.dead_letters.redrive(plan["token"], by="olga", **course)


async def test_the_rest_waits_for_the_canary_and_halts_with_it(sf):
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    ids = await letters(sf, "mail", 30)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", canary=3, halt_on=0.5)
    await redriver(sf).step()
    await redriver(sf).step()
    assert counts(await redrive.progress()) == {"waiting": 27, "running": 3}
    await drain(sf)
    await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("halted", {"waiting": 27, "failed": 3})
    assert "3 of the 3" in progress["why"]
    halted = f"redrive {redrive.id} halted: 3 of the 3 that were tried first failed again; "
    assert [issue for issue in (await sf.health())["issues"] if issue.startswith(halted)]
    assert not await redriver(sf).step()
    failing.clear()
    await redrive.resume()
    await redriver(sf).step()
    assert counts(await redrive.progress()) == {"waiting": 24, "running": 3, "failed": 3}  # a canary again
    await drain(sf)
    await driven(sf)
    await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("finished", {"completed": 27, "failed": 3})
    assert [(await job_of(sf, each)).replays for each in ids] == [1] * 30


async def test_what_was_on_its_way_before_a_halt_does_not_judge_what_follows(sf):
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    await letters(sf, "mail", 40)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", rate="80/s", canary=1, halt_on=0.5)
    failing.clear()
    await driven(sf)
    sf.clock.advance(0.25)
    await redriver(sf).step()  # 20 are on their way, and nobody runs them
    failing.add("mail")
    await redrive.pause()
    await stop_by_failures(sf, redrive)
    assert counts(await redrive.progress()) == {"waiting": 19, "completed": 1, "failed": 20}
    failing.clear()
    await redrive.resume()
    await driven(sf)
    assert counts(await redrive.progress()) == {"waiting": 18, "running": 1, "completed": 1, "failed": 20}


async def stop_by_failures(sf, redrive) -> None:
    """Let what is on its way fail, and have it halted."""
    await drain(sf)
    await redrive.resume()
    sf.clock.advance(0.25)
    await redriver(sf).step()
    assert (await redrive.progress())["state"] == "halted"


async def test_failures_before_a_halt_do_not_count_among_the_last_after_it(sf):
    """Ten failed before the cause was mended. One more afterwards makes eleven of the last twenty, but one since."""
    failing = set(range(30))
    sf.queue("mail", attempts=1)

    @sf.handler("mail")
    async def mail(job):
        return {"success": False, "error_kind": "validation"} if job.payload["n"] in failing else None

    govern(sf, Rulebook())
    await letters(sf, "mail", 30)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", canary=10, halt_on=0.2)
    for _ in range(2):
        await driven(sf)
    assert (await redrive.progress())["state"] == "halted"
    failing.intersection_update({19})  # the newest go first: this is the first of those that are left
    await redrive.resume()
    for _ in range(4):
        await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("finished", {"completed": 19, "failed": 11})


async def test_a_canary_that_is_good_lets_the_rest_go(sf):
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    await letters(sf, "mail", 10)
    failing.clear()
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", canary=2, halt_on=0.5)
    await driven(sf)
    assert counts(await redrive.progress()) == {"waiting": 8, "running": 2}
    await driven(sf)
    assert counts(await redrive.progress()) == {"running": 8, "completed": 2}


async def test_failures_among_the_last_halt_it_later(sf):
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    await letters(sf, "mail", 60)
    failing.clear()
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", rate="40/s", halt_on=0.5)
    for _ in range(2):
        await driven(sf)
        sf.clock.advance(0.25)
    failing.add("mail")
    for _ in range(2):
        await driven(sf)
        sf.clock.advance(0.25)
    progress = await redrive.progress()
    assert (progress["state"], progress["why"]) == ("halted", "10 of the last 20 failed again")
    assert counts(progress) == {"waiting": 30, "completed": 20, "failed": 10}


async def test_several_workers_do_not_exceed_the_rate(sf):
    broken(sf, "mail").clear()
    govern(sf, Rulebook())
    await letters_of_a_broken_queue(sf, 40)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", rate="20/s")
    for second in range(1, 3):
        for _ in range(4):
            await asyncio.gather(*(redriver(sf, f"worker-{n}").step() for n in range(4)))
            sf.clock.advance(0.25)
        assert counts(await redrive.progress()) == {"waiting": 40 - 20 * second, "running": 20 * second} or second == 2


async def letters_of_a_broken_queue(sf, number: int) -> None:
    @sf.handler("broken")
    async def handle(_job):
        return {"success": False, "error": "no", "error_kind": "validation"}

    sf.queue("broken", attempts=1)
    await letters(sf, "broken", number)


async def test_another_worker_goes_on_where_one_stopped(sf):
    broken(sf, "mail").clear()
    govern(sf, Rulebook())
    await letters_of_a_broken_queue(sf, 10)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", rate="4/s")
    await redriver(sf, "worker-1").step()
    sf.clock.advance(1)
    await redriver(sf, "worker-2").step()
    assert (await redrive.progress())["waiting"] == 9  # worker-1 drives it
    sf.clock.advance(DRIVEN_FOR)
    await redriver(sf, "worker-2").step()
    assert (await redrive.progress())["waiting"] == 8


async def test_it_can_be_paused_resumed_and_cancelled(sf):
    broken(sf, "mail").clear()
    govern(sf, Rulebook())
    await letters_of_a_broken_queue(sf, 10)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", rate="4/s")
    await redriver(sf).step()
    await redrive.pause()
    await redrive.pause()
    sf.clock.advance(60)
    assert not await redriver(sf).step()
    assert (await redrive.progress())["waiting"] == 9
    await redrive.resume()
    assert await redriver(sf).step()
    assert (await redrive.progress())["waiting"] == 8
    await redrive.cancel()
    progress = await redrive.progress()
    assert (progress["state"], progress["why"]) == ("cancelled", "cancelled by olga")
    with pytest.raises(ConfigurationError, match="cancelled"):
        await redrive.resume()
    told = [entry["outcome"] for entry in await sf.audit.entries(kind="redrive")]
    assert told == ["started", "paused", "resumed", "cancelled"]
    notices = sf.subscribe(["redrive_started", "redrive_cancelled"], after=0)
    assert [((await anext(notices)).data, (await anext(notices)).kind)] == [
        ({"redrive": redrive.id}, "redrive_cancelled")
    ]


async def test_the_policy_is_asked_again_for_every_letter(sf):
    book = Rulebook()
    failing = broken(sf, "mail", "pay")
    govern(sf, book)
    await letters(sf, "mail", 2)
    await letters(sf, "pay", 2)
    failing.clear()
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga")
    book.queues = {"pay": "deny", "mail": "require_approval"}
    await driven(sf)
    await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("finished", {"denied": 2, "approval_required": 2})
    assert {job.state for job in await sf.jobs()} == {"dead"}


async def test_one_approval_lets_a_whole_plan_go(sf):
    book = Rulebook("require_approval", "governance")
    failing = broken(sf, "mail")
    govern(sf, book)
    await letters(sf, "mail", 5)
    failing.clear()
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", canary=1)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("approval_pending", {"waiting": 5})
    assert not await redriver(sf).step()
    [approval] = await sf.approvals.list()
    for person in ("olga", "rita"):
        with pytest.raises(ApprovalRefused):
            await sf.approvals.approve(approval["id"], by=person, groups=["governance"])
    with pytest.raises(ApprovalRefused, match="group"):
        await sf.approvals.approve(approval["id"], by="bea")
    answer = await sf.approvals.approve(approval["id"], by="bea", groups=["governance"])
    assert (answer["outcome"], answer["redrive"]) == ("started", redrive.id)
    for _ in range(3):
        await driven(sf)
    progress = await redrive.progress()
    assert (progress["state"], counts(progress)) == ("finished", {"completed": 5})


@pytest.mark.parametrize("how", ["denied", "expired", "void"])
async def test_a_plan_that_is_not_approved_ends(sf, how):
    book = Rulebook("require_approval")
    broken(sf, "mail")
    govern(sf, book)
    await letters(sf, "mail", 2)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga")
    [approval] = await sf.approvals.list()
    match how:
        case "denied":
            await sf.approvals.deny(approval["id"], by="bea", reason="not today")
        case "expired":
            sf.clock.advance(86401)
            await redriver(sf).step()
        case "void":
            book.snapshot = "second"
            with pytest.raises(ApprovalRefused, match="policy changed"):
                await sf.approvals.approve(approval["id"], by="bea")
    progress = await redrive.progress()
    assert (progress["state"], progress["why"]) == ("cancelled", f"its approval was {how}")
    assert {job.state for job in await sf.jobs()} == {"dead"}


async def test_an_approved_plan_stops_replaying_under_another_policy(sf):
    book = Rulebook("require_approval")
    failing = broken(sf, "mail")
    govern(sf, book)
    await letters(sf, "mail", 2)
    failing.clear()
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga")
    [approval] = await sf.approvals.list()
    await sf.approvals.approve(approval["id"], by="bea")
    book.snapshot = "second"
    await driven(sf)
    assert counts(await redrive.progress()) == {"approval_required": 2}


async def test_two_redrives_of_the_same_letters_replay_each_once(sf):
    failing = broken(sf, "mail")
    govern(sf, Rulebook())
    ids = await letters(sf, "mail", 20)
    failing.clear()
    plans = [await sf.dead_letters.plan() for _ in range(2)]
    redrives = [await sf.dead_letters.redrive(plan["token"], by="olga") for plan in plans]
    await asyncio.gather(*(redriver(sf, f"worker-{n}").step() for n in range(3)))
    await drain(sf)
    sf.clock.advance(DRIVEN_FOR + 1)
    for _ in range(3):
        await driven(sf)
    assert {(await job_of(sf, each)).replays for each in ids} == {1}
    found = [counts(await redrive.progress()) for redrive in redrives]
    assert sum(each.get("completed", 0) for each in found) == 20
    assert sum(each.get("drifted", 0) for each in found) == 20


async def test_32_who_replay_one_letter_start_one(sf):
    broken(sf, "mail")
    govern(sf, Rulebook())
    job_id = await letter(sf)
    answers = await asyncio.gather(
        *(sf.dead_letters.replay(job_id, by=f"person {n}") for n in range(32)), return_exceptions=True
    )
    assert [answer for answer in answers if isinstance(answer, dict)]
    job = await job_of(sf, job_id)
    assert (job.state, job.replays) == ("queued", 1)
    assert len([line for line in job.history if line.reason_code == "replayed"]) == 1
    assert [entry["kind"] for entry in await sf.audit.entries(job=job_id)] == ["replay"]
