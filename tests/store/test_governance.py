"""Approvals and redrives in the store: with the move or not at all, one open approval, answers that come too late."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.failure import Class
from standfast.lifecycle import Move, Transition
from standfast.spine.apply import apply
from standfast.store.scripts import writes
from standfast.store.store import Store
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.rules import deny_held, hold_for_approval
from standfast.wings.approvals.scripts import ApprovalAnswer, ApprovalRequest
from standfast.wings.approvals.words import Answer, ApprovalState, Bound, Filing
from standfast.wings.backup import scripts as backup_scripts
from standfast.wings.backup.scripts import RestoredHold, RestoredPause
from standfast.wings.records import reads
from standfast.wings.redrives import redrive_reads
from standfast.wings.redrives import scripts as redrives
from standfast.wings.redrives.scripts import (
    KEEP_PLANS,
    KEEP_REDRIVES,
    AdvanceRequest,
    DriveRequest,
    MemberOutcome,
    Plan,
    PlanRow,
    Start,
)
from standfast.wings.redrives.words import Outcome, RedriveMember, RedriveOptions
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import replay
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import claim_one, ended, failed, one, seen


def filing(name: str = "a", payload: str = "hash", **more: Any) -> Filing:
    """Lay out an approval."""
    return Filing(id=name, bound=Bound(payload, "mail/mail", "first"), asked_by="alex", **more)


async def died(store: Store) -> str:
    """Let a job die; give its id."""
    job_id = await one(store)
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    return job_id


async def row(store: Store, job_id: str) -> Any:
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    return record.row


async def hold(store: Store, job_id: str, wanted: Filing) -> bool:
    move = hold_for_approval(standing(await row(store, job_id)), wanted, 1)
    assert move is not None
    [landed] = await store.write_all(apply, [move])
    return landed


async def state_of(store: Store, approval: str) -> str | None:
    found = await store.read(approvals.one(approval))
    return None if found is None else found.state


async def test_an_approval_is_filed_with_the_move_or_not_at_all(store):
    job_id = await died(store)
    move = hold_for_approval(standing(await row(store, job_id)), filing(), 1)
    assert move is not None
    late = msgspec.structs.replace(move, token=move.token + 1)
    assert await store.write_all(apply, [late]) == [False]
    assert await state_of(store, "a") is None
    assert await store.write_all(apply, [move]) == [True]
    assert await state_of(store, "a") == "pending"
    assert (await seen(store, job_id)).state == "held"


async def test_a_dying_attempt_can_ask_for_one(store):
    job_id = await one(store)
    claim = await claim_one(store)
    failure = failed().failure
    at = (claim.n, claim.token, claim.id, claim.queue)
    assert await store.write_all(apply, [Transition(*at, Move.HOLD, failure=failure, carries=(filing(),))]) == [True]
    found = await store.read(approvals.one("a"))
    assert found is not None
    assert (found.job, found.queue, found.expires_at) == (job_id, "mail", store.now() + 86400)


async def test_a_letter_has_one_open_approval(store):
    job_id = await died(store)
    assert await hold(store, job_id, filing("a"))
    job = await row(store, job_id)
    again = await store.write(approvals.ask, ApprovalRequest(job.n, job.token, job_id, "mail", filing("b")))
    assert again == "a"
    changed = await store.write(
        approvals.ask, ApprovalRequest(job.n, job.token, job_id, "mail", filing("c", payload="other"))
    )
    assert (changed, await state_of(store, "a"), await state_of(store, "c")) == ("c", "void", "pending")
    assert await store.read(approvals.open_for(job.n)) == "c"
    assert await store.write(approvals.ask, ApprovalRequest(job.n, job.token + 1, job_id, "mail", filing("d"))) is None


async def test_an_answer_that_comes_too_late_moves_nothing(store):
    job_id = await died(store)
    await hold(store, job_id, filing())
    job = standing(await row(store, job_id))
    use = Answer("a", ApprovalState.APPROVED, ApprovalState.USED)
    go = replay(job, by="bea")
    assert isinstance(go, Transition)
    go = go.carrying(use)
    no = deny_held(job, Answer("a", ApprovalState.PENDING, ApprovalState.DENIED, "dan", "no"), None, 1)
    assert no is not None
    assert await store.write_all(apply, [go]) == [False]  # nobody has approved it
    assert await store.write(
        approvals.answer, ApprovalAnswer(Answer("a", ApprovalState.PENDING, ApprovalState.APPROVED, "bea"))
    )
    assert not await store.write(
        approvals.answer, ApprovalAnswer(Answer("a", ApprovalState.PENDING, ApprovalState.DENIED, "dan"))
    )
    assert await store.write_all(apply, [no]) == [False]
    assert (await seen(store, job_id)).state == "held"
    assert await store.write_all(apply, [go]) == [True]
    assert await state_of(store, "a") == "used"
    assert await store.write_all(apply, [no]) == [False]


async def test_a_move_that_lost_uses_no_approval(store):
    job_id = await died(store)
    await hold(store, job_id, filing())
    await store.write(
        approvals.answer, ApprovalAnswer(Answer("a", ApprovalState.PENDING, ApprovalState.APPROVED, "bea"))
    )
    go = replay(standing(await row(store, job_id)))
    assert isinstance(go, Transition)
    use = msgspec.structs.replace(go, token=go.token + 1).carrying(
        Answer("a", ApprovalState.APPROVED, ApprovalState.USED)
    )
    assert await store.write_all(apply, [use]) == [False]
    assert await state_of(store, "a") == "approved"


async def test_whoever_changes_a_job_voids_its_approval_with_the_change(store):
    job_id = await died(store)
    await hold(store, job_id, filing())
    n = (await row(store, job_id)).n

    @writes()
    def change(_round, items):
        for number in items:
            yield from approvals.void([number], "its payload was amended")
        return [None] * len(items)

    await store._engine.call(change, [n], seconds=5)  # noqa: SLF001 - as amend does
    found = await store.read(approvals.one("a"))
    assert found is not None
    assert (found.state, found.answer) == ("void", "its payload was amended")
    triage = (await seen(store, job_id)).triage
    assert triage is not None
    assert triage.replay_status == "pending_review"


async def planned(store: Store, *ids: str, fate: str = "run") -> Plan:
    """Keep a plan of these letters."""
    rows = [await row(store, each) for each in ids]
    letters = [PlanRow(place, each.n, each.token, each.generation, fate) for place, each in enumerate(rows)]
    plan = Plan(id=f"plan-{'-'.join(ids)}", wanted="{}", foreseen="{}", snapshot="first", letters=letters)
    await store.write(redrives.plan, plan)
    return plan


def start(plan: Plan, **course: Any) -> Start:
    return Start(id=plan.id, options=RedriveOptions(**course), by="olga", reason=None, snapshot="first")


async def test_a_plan_starts_once(store):
    plan = await planned(store, await died(store))
    assert (await store.write(redrives.start, start(plan))).first
    again = await store.write(redrives.start, start(plan))
    assert (again.first, again.drifted) == (False, [])
    assert again.row is not None
    assert again.row.state == "running"


async def test_an_amended_letter_is_another_one(store, change):
    job_id = await died(store)
    plan = await planned(store, job_id)
    change("UPDATE body SET generation = 1")
    assert (await store.write(redrives.start, start(plan))).drifted == [(job_id, "dead")]


async def test_each_episode_is_counted_by_itself(store):
    plan = await planned(store, *[await died(store) for _ in range(4)])
    await store.write(redrives.start, start(plan))
    for place, outcome in ((0, Outcome.FAILED), (1, None)):
        await store.write_all(redrives.mark, [MemberOutcome(RedriveMember(plan.id, place, 1), outcome)])
    first = await store.read(redrive_reads.tally(plan.id, 1))
    assert (first.waiting, first.running, first.from_before, first.failed) == (2, 1, 0, 1)
    second = await store.read(redrive_reads.tally(plan.id, 2))
    assert (second.waiting, second.running, second.from_before, second.failed) == (2, 0, 1, 0)
    assert second.recent == ()
    await store.write_all(
        redrives.mark, [MemberOutcome(RedriveMember(plan.id, 1), Outcome.FAILED, "released")]
    )  # it keeps the episode it went in
    assert [(await store.read(redrive_reads.tally(plan.id, episode))).failed for episode in (1, 2)] == [2, 0]


async def test_a_letter_goes_only_by_the_hand_of_whoever_drives_its_redrive(store):
    job_id = await died(store)
    plan = await planned(store, job_id)
    await store.write(redrives.start, start(plan))
    assert await store.write(redrives.take, DriveRequest("worker-2", "", 10.0)) is not None
    go = replay(standing(await row(store, job_id)), by="olga")
    assert isinstance(go, Transition)
    overtaken, driven = (go.carrying(RedriveMember(plan.id, 0, 1, driver)) for driver in ("worker-1", "worker-2"))
    assert await store.write_all(apply, [overtaken]) == [False]
    assert await store.write_all(apply, [overtaken, driven]) == [False, True], "of two in one transaction the right one"


async def test_a_replay_and_its_place_in_the_redrive_are_one(store):
    job_id = await died(store)
    plan = await planned(store, job_id)
    await store.write(redrives.start, start(plan))
    go = replay(standing(await row(store, job_id)))
    assert isinstance(go, Transition)
    go = go.carrying(RedriveMember(plan.id, 0, 1))
    assert await store.write_all(apply, [msgspec.structs.replace(go, token=99)]) == [False]
    assert (await store.read(redrive_reads.tally(plan.id, 1))).waiting == 1
    assert await store.write_all(apply, [go]) == [True]
    tally = await store.read(redrive_reads.tally(plan.id, 1))
    assert (tally.waiting, tally.running) == (0, 1)
    await store.write_all(
        redrives.mark, [MemberOutcome(RedriveMember(plan.id, 0), Outcome.DRIFTED)]
    )  # whoever still thinks that it waits
    await store.write_all(redrives.mark, [MemberOutcome(RedriveMember(plan.id, 0), Outcome.FAILED, "released")])
    await store.write_all(
        redrives.mark, [MemberOutcome(RedriveMember(plan.id, 0), Outcome.COMPLETED, "released")]
    )  # what ended stays so
    tally = await store.read(redrive_reads.tally(plan.id, 1))
    assert (tally.failed, tally.completed, tally.recent) == (1, 0, (True,))


async def test_one_worker_drives_at_a_time(store, clock):
    plan = await planned(store, await died(store))
    await store.write(redrives.start, start(plan))
    assert await store.write(redrives.take, DriveRequest("worker-1", "", 10.0)) is not None
    assert await store.write(redrives.take, DriveRequest("worker-2", "", 10.0)) is None
    assert await store.write(redrives.take, DriveRequest("worker-1", plan.id, 10.0)) is None
    assert await store.write(redrives.advance, AdvanceRequest(plan.id, "worker-2", 1, 0.0, 10.0)) == []
    assert len(await store.write(redrives.advance, AdvanceRequest(plan.id, "worker-1", 1, 0.0, 10.0))) == 1
    clock.advance(11)
    assert await store.write(redrives.take, DriveRequest("worker-2", "", 10.0)) is not None
    assert await store.write(redrives.advance, AdvanceRequest(plan.id, "worker-1", 1, 0.0, 10.0)) == []


async def test_what_is_over_is_forgotten_in_time(store, clock, look):
    job_id = await died(store)
    await planned(store, job_id)
    await hold(store, job_id, filing())
    await store.write(approvals.answer, ApprovalAnswer(Answer("a", ApprovalState.PENDING, ApprovalState.DENIED, "bea")))
    clock.advance(KEEP_PLANS - 1)
    await store.write(upkeep.prune, PruneRequest())
    assert len(look("SELECT * FROM redriven")) == 1
    clock.advance(2)
    await store.write(upkeep.prune, PruneRequest())
    assert look("SELECT * FROM redriven") == look("SELECT * FROM redrive") == []
    assert await state_of(store, "a") == "denied"
    clock.advance(KEEP_REDRIVES)
    await store.write(upkeep.prune, PruneRequest())
    assert await state_of(store, "a") is None
    assert (await seen(store, job_id)).state == "held"


async def stored_plans(store: Store, plans: int, letters: int) -> None:
    """Store plans of letters that are long gone."""
    for plan in range(plans):
        rows = [PlanRow(place, 1000 + place, 1, 0, "run") for place in range(letters)]
        made = Plan(id=f"plan-{plan}", wanted="{}", foreseen="{}", snapshot="first", letters=rows)
        await store.write(redrives.plan, made)


async def test_old_plans_are_forgotten_in_bites_however_many_letters_they_have(store, clock, look):
    """One DELETE of millions of rows meets PostgreSQL's time limit, and then nothing at all would be pruned."""
    await stored_plans(store, plans=2, letters=25)
    await stored_plans(store, plans=3, letters=0)
    clock.advance(KEEP_PLANS + 1)
    left = []
    while await store.write(upkeep.prune, PruneRequest(limit=10)):
        left += look("SELECT count(*) FROM redriven")
        plans = {name for (name,) in look("SELECT id FROM redrive")}
        assert plans >= {name for (name,) in look("SELECT DISTINCT redrive FROM redriven")}
    assert left == [(40,), (30,), (20,), (10,), (0,)]
    assert look("SELECT * FROM redriven") == look("SELECT * FROM redrive") == []


async def test_many_old_plans_without_letters_are_forgotten_in_bites(store, clock, look):
    for number in range(25):
        plan = Plan(id=f"plan-{number}", wanted="{}", foreseen="{}", snapshot="first", letters=())
        await store.write(redrives.plan, plan)
    clock.advance(KEEP_PLANS + 1)
    assert [await store.write(upkeep.prune, PruneRequest(limit=10)) for _ in range(3)] == [True, True, False]
    assert look("SELECT * FROM redrive") == []


async def test_a_plan_that_is_half_forgotten_starts_nothing(store, clock, look):
    ids = [await died(store) for _ in range(4)]
    plan = await planned(store, *ids)
    clock.advance(KEEP_PLANS + 1)
    assert await store.write(upkeep.prune, PruneRequest(limit=3))
    assert look("SELECT count(*) FROM redriven") == [(1,)]
    started = await store.write(redrives.start, start(plan))
    assert (started.first, started.row, started.drifted) == (False, None, [])
    await store.write(upkeep.prune, PruneRequest())
    assert look("SELECT * FROM redrive") == []


async def test_approvals_that_are_over_are_forgotten_in_bites(store, clock, look):
    for number in range(5):
        await hold(store, await died(store), filing(f"a-{number}"))
        answer = Answer(f"a-{number}", ApprovalState.PENDING, ApprovalState.DENIED, "bea")
        await store.write(approvals.answer, ApprovalAnswer(answer))
    clock.advance(KEEP_REDRIVES + 1)
    left = []
    for _ in range(3):
        await store.write(upkeep.prune, PruneRequest(limit=2))
        left += look("SELECT count(*) FROM approval")
    assert left == [(3,), (1,), (0,)]


async def test_a_restored_store_goes_on_with_nothing(store):
    job_id = await died(store)
    plan = await planned(store, await died(store))
    await store.write(redrives.start, start(plan))
    await hold(store, job_id, filing())
    await store.write(
        approvals.answer, ApprovalAnswer(Answer("a", ApprovalState.PENDING, ApprovalState.APPROVED, "bea"))
    )
    triage = (await seen(store, job_id)).triage
    assert triage is not None
    store.write(backup_scripts.hold_restored, RestoredHold(failed().failure, triage)).result()
    store.write(backup_scripts.pause_restored, RestoredPause(jobs_held=True)).result()
    assert await store.write(redrives.take, DriveRequest("worker-1", "", 10.0)) is None
    assert await store.read(approvals.due(store.now(), store.now())) == []
    assert await state_of(store, "a") == "void"
