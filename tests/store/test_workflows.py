"""Workflows in the store: a step's end releases, holds up or ends what is behind it, in one transaction."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from standfast.failure import Class
from standfast.lifecycle import State, Transition
from standfast.outcome import Cancel, Snooze, Succeeded, Unconsented
from standfast.rules import QueueRules, Retention
from standfast.spine.apply import apply
from standfast.spine.claim_requests import Conflict, Full
from standfast.store.postgres import driver as postgres_driver
from standfast.store.sqlite import sqlite_engine
from standfast.store.store import Store
from standfast.wings.backup import scripts as backup_scripts
from standfast.wings.backup.scripts import RestoredHold, RestoredPause
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health.counting import job_counts
from standfast.wings.notices.journal import journal as journal_script
from standfast.wings.policy.triage import triage
from standfast.wings.records import reads
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import discard, resolve
from standfast.wings.workflows import graphs
from standfast.wings.workflows.graphs import Cancellation
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest, WorkerCard
from tests.store.graph import DIAMOND, claims, done, laid_out, progress, started, states, steps
from tests.store.suite import (
    Look,
    cancelled,
    claim_one,
    claimed,
    ended,
    everything,
    failed,
    journal,
    one,
    publish,
    replayed,
)
from tests.store.suite import seen as view_of

pytestmark = pytest.mark.anyio
PERMANENT = failed(Class.PERMANENT)


async def resolved(store: Store, job_id: str, result: str) -> None:
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    move = resolve(standing(record.row), by="ann", reason="seen", result=result)
    assert isinstance(move, Transition)
    assert await store.write_all(apply, [move]) == [True]


async def discarded(store: Store, job_id: str) -> None:
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    move = discard(standing(record.row), by="ann", reason="unwanted")
    assert isinstance(move, Transition)
    assert await store.write_all(apply, [move]) == [True]


async def told_of(store: Store, look: Look, what: str) -> list[str]:
    """Give the jobs that something was told of."""
    await journal_script(store, 0, 1)  # where it is numbered when it is read
    rows = journal(look("SELECT entries FROM journal ORDER BY seq"))
    return [job_id for row in rows for kind, _, ids in row if kind == what for job_id in ids]


# --- running


async def test_each_step_waits_for_those_before_it_and_is_handed_their_results(store):
    workflow = await started(store)
    assert await states(store, workflow) == {"a": "queued", "b": "waiting", "c": "waiting", "d": "waiting"}
    [a] = await claims(store, "a")
    assert a.parents == {}
    await ended(store, a, Succeeded('"from a"'))
    b, c = await claims(store, "b", "c")
    assert {name: parent.result for name, parent in (b.parents or {}).items()} == {"a": '"from a"'}
    await ended(store, b, Succeeded())
    assert await claimed(store, slots=9) == []
    await ended(store, c, Succeeded('"from c"'))
    [d] = await claims(store, "d")
    assert {name: parent.result for name, parent in (d.parents or {}).items()} == {"b": None, "c": '"from c"'}
    assert await progress(store, workflow) == "running"
    await ended(store, d, Succeeded())
    assert await progress(store, workflow) == "completed"


async def test_parents_that_end_in_one_round_release_what_waits_for_both_once(store, look):
    workflow = await started(store)
    await done(store, "a")
    b, c = await claims(store, "b", "c")
    ends = await asyncio.gather(ended(store, b, Succeeded()), ended(store, c, Succeeded()))
    assert list(ends) == [True, True]
    [d] = await claims(store, "d")
    assert d.attempts == 1
    assert (await told_of(store, look, "released")).count((await steps(store, workflow))["d"].id) == 1


async def test_a_heartbeat_shares_the_round_of_the_last_steps_end(store):
    workflow = await started(store, {"a": []}, key="order-7")
    [a] = await claims(store, "a")
    card = WorkerCard("worker-1", "host", 1, '["mail"]', "{}")
    ends, beaten = await asyncio.gather(ended(store, a, Succeeded()), store.write(upkeep.beat, card))
    assert (ends, beaten.held) == (True, [])
    assert await progress(store, workflow) == "completed"


async def test_a_workflow_starts_in_the_round_that_holds_another_job_for_its_consent(store):
    await one(store)
    claim = await claim_one(store)
    workflow, held = await asyncio.gather(started(store), ended(store, claim, Unconsented("")))
    assert held
    assert await states(store, workflow) == {"a": "queued", "b": "waiting", "c": "waiting", "d": "waiting"}


async def test_an_end_that_is_brought_twice_counts_once(store, look):
    await started(store)
    [a] = await claims(store, "a")
    await ended(store, a, Succeeded())
    before = everything(look, "job", "workflow")
    await ended(store, a, Succeeded())
    assert everything(look, "job", "workflow") == before


async def test_a_repeat_blocks_what_is_behind_it_and_nothing_else(store, clock):
    workflow = await started(store, {"a": [], "b": ["a"], "c": [], "d": ["c"]})
    a, c = await claims(store, "a", "c")
    await ended(store, a, failed())
    await ended(store, c, Snooze(5))
    assert await states(store, workflow) == {"a": "queued", "b": "waiting", "c": "queued", "d": "waiting"}
    assert await progress(store, workflow) == "running"
    clock.advance(600)
    await done(store, "a", "c")
    await done(store, "b", "d")
    assert await progress(store, workflow) == "completed"


async def test_ages_and_waiting_times_count_from_the_release(store, clock):
    publish(store, mail=QueueRules(max_age=100.0))
    workflow = await started(store, {"a": [], "b": ["a"]})
    clock.advance(90)
    await done(store, "a")
    clock.advance(90)
    job = await view_of(store, (await steps(store, workflow))["b"].id)
    assert (job.last_entered_at - job.created_at).total_seconds() == 90
    assert job.expires_at is not None
    assert (job.expires_at - job.created_at).total_seconds() == 190
    await done(store, "b")


async def test_a_step_with_a_delay_starts_no_earlier_than_that_after_the_start(store, clock):
    await started(store, {"a": [], "b": ["a"]}, b={"delay": 60.0})
    await done(store, "a")
    assert await claimed(store) == []
    clock.advance(61)
    await done(store, "b")


# --- stopping


async def test_a_dead_step_holds_up_what_is_behind_it_until_it_is_replayed(store):
    workflow = await started(store)
    await done(store, "a")
    b, c = await claims(store, "b", "c")
    await ended(store, b, PERMANENT)
    assert await progress(store, workflow) == "stuck"
    await ended(store, c, Succeeded())
    d = (await steps(store, workflow))["d"]
    assert d.state == "waiting"
    assert (await view_of(store, d.id)).reason == "waits for step b, which died: timeout"
    await replayed(store, b.id)
    assert await progress(store, workflow) == "running"
    assert (await view_of(store, d.id)).reason == "waits for step b"
    await done(store, "b")
    await done(store, "d")
    assert await progress(store, workflow) == "completed"


async def test_a_resolved_step_feeds_what_is_behind_it(store):
    workflow = await started(store, {"a": [], "b": ["a"]})
    [a] = await claims(store, "a")
    await ended(store, a, PERMANENT)
    await resolved(store, a.id, '{"by": "hand"}')
    assert await progress(store, workflow) == "running"
    [b] = await claims(store, "b")
    assert (b.parents or {})["a"].result == '{"by": "hand"}'


@pytest.mark.parametrize("how", ["Cancel", "discarded", "cancelled"])
async def test_a_step_that_will_never_be_completed_ends_all_that_is_behind_it(store, look, how):
    workflow = await started(store, DIAMOND | {"e": ["d"], "beside": []})
    [a, beside] = await claims(store, "a", "beside")
    await ended(store, a, Succeeded())
    b, _ = await claims(store, "b", "c")
    if how == "Cancel":
        await ended(store, b, Cancel("not today"))
    else:
        await ended(store, b, PERMANENT if how == "discarded" else failed())
        await (discarded if how == "discarded" else cancelled)(store, b.id)
    found = await steps(store, workflow)
    assert [found[name].state for name in ("b", "c", "d", "e")] == ["cancelled", "running", "cancelled", "cancelled"]
    assert found["e"].warning == "step b was cancelled"
    assert {found["d"].id, found["e"].id} <= set(await told_of(store, look, "cancelled"))
    assert await progress(store, workflow) == "running"
    await ended(store, beside, Succeeded())


async def test_a_waiting_step_can_be_cancelled_and_is_not_released_afterwards(store):
    workflow = await started(store)
    await cancelled(store, (await steps(store, workflow))["b"].id)
    await done(store, "a")
    await done(store, "c")
    assert await states(store, workflow) == {"a": "completed", "b": "cancelled", "c": "completed", "d": "cancelled"}
    assert await progress(store, workflow) == "cancelled"


# --- the whole


async def test_cancelling_ends_what_waits_and_asks_what_runs(store, look):
    workflow = await started(store, DIAMOND | {"dead": [], "behind": ["dead"]})
    [a, dead] = await claims(store, "a", "dead")
    await ended(store, dead, PERMANENT)
    assert await store.write(graphs.cancel, Cancellation(workflow, "ann")) is True
    expected = {"a": "running", "b": "cancelled", "c": "cancelled", "d": "cancelled"}
    assert await states(store, workflow) == expected | {"dead": "cancelled", "behind": "cancelled"}
    assert look("SELECT cancelling FROM job WHERE state = 'running'") == [(1,)]
    assert any('"discard"' in entries for (entries,) in look("SELECT entries FROM audit"))
    await ended(store, a, failed())
    assert (await states(store, workflow))["a"] == "cancelled"
    assert await progress(store, workflow) == "cancelled"
    assert await store.write(graphs.cancel, Cancellation(workflow, "ann")) is True
    assert await store.write(graphs.cancel, Cancellation("no such", "ann")) is False


async def test_a_step_that_succeeds_although_it_was_asked_to_stop_releases_nobody(store):
    workflow = await started(store, {"a": [], "b": ["a"]})
    [a] = await claims(store, "a")
    await store.write(graphs.cancel, Cancellation(workflow, "ann"))
    await ended(store, a, Succeeded())
    assert await states(store, workflow) == {"a": "completed", "b": "cancelled"}
    assert await progress(store, workflow) == "cancelled"


async def test_the_same_key_is_the_same_workflow(store, look, clock):
    first = await started(store, key="k")
    again = laid_out(DIAMOND, key="k")
    assert await store.write(graphs.start, again) == first
    assert await store.write(graphs.start, laid_out({"other": []}, key="k")) == Conflict(first)
    elsewhere = await store.write(graphs.start, laid_out({"other": []}, key="k", name="another"))
    assert elsewhere not in (first, again.id)
    assert len(look("SELECT id FROM workflow")) == 2
    await store.write(graphs.cancel, Cancellation(first, "ann"))
    clock.advance(6 * 86400)
    assert await store.write(graphs.start, laid_out(DIAMOND, key="k")) == first
    clock.advance(2 * 86400)
    fresh = laid_out(DIAMOND, key="k")
    assert await store.write(graphs.start, fresh) == fresh.id


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_start_that_is_brought_again_is_stored_once(store, look, key):
    start = laid_out(DIAMOND, key=key)
    assert [await store.write(graphs.start, start) for _ in range(2)] == [start.id, start.id]
    assert look("SELECT count(*) FROM job") == [(4,)]
    assert look("SELECT total, unfinished FROM workflow") == [(4, 4)]


async def test_a_full_queue_refuses_the_whole_workflow(store, look):
    publish(store, mail=QueueRules(max_depth=1))
    assert await store.write(graphs.start, laid_out({"a": [], "b": [], "c": ["a"]}, key="k")) == ("mail", Full(1))
    assert everything(look, "job", "workflow", "idempotency") == [[], [], []]
    assert isinstance(await store.write(graphs.start, laid_out({"a": [], "c": ["a"]}, key="k")), str)


# --- keeping


async def test_nothing_of_an_unfinished_workflow_is_pruned_and_a_finished_one_goes_whole(store, look, clock):
    publish(store, mail=QueueRules(keep_completed=0.1, keep_dead=Retention(age=0.1)))
    workflow = await started(store, DIAMOND)
    await done(store, "a")
    b, c = await claims(store, "b", "c")
    await ended(store, b, PERMANENT)
    await ended(store, c, Succeeded())
    other = await one(store)
    await ended(store, await claim_one(store), Succeeded())
    clock.advance(1000)
    await store.write(upkeep.prune, PruneRequest())
    assert await store.read(reads.job(other, store.boot())) is None
    assert await states(store, workflow) == {"a": "completed", "b": "dead", "c": "completed", "d": "waiting"}
    await resolved(store, b.id, "1")
    await done(store, "d")
    clock.advance(1)
    await store.write(upkeep.prune, PruneRequest())
    assert await store.read(graphs.one(workflow)) is None
    assert everything(look, "job", "body", "ending", "history", "workflow") == [[]] * 5


async def test_a_workflow_is_kept_as_long_as_the_queue_that_keeps_longest(store, clock):
    publish(store, mail=QueueRules(keep_completed=0.1), slow=QueueRules(keep_completed=500.0))
    start = laid_out({"a": [], "b": ["a"]})
    jobs = [start.jobs[0], replace(start.jobs[1], queue="slow", handler="slow")]
    workflow = await store.write(graphs.start, replace(start, jobs=jobs))
    assert isinstance(workflow, str)
    await done(store, "a")
    await ended(store, await claim_one(store, "slow"), Succeeded())
    clock.advance(400)
    await store.write(upkeep.prune, PruneRequest())
    assert await store.read(graphs.one(workflow)) is not None
    clock.advance(200)
    await store.write(upkeep.prune, PruneRequest())
    assert await store.read(graphs.one(workflow)) is None


async def test_a_workflow_larger_than_a_bite_is_pruned_whole(store, look, clock):
    publish(store, mail=QueueRules(keep_completed=0.1))
    for _ in range(2):
        workflow = await started(store, {str(n): [] for n in range(5)})
        await store.write(graphs.cancel, Cancellation(workflow, "ann"))
    clock.advance(10)
    assert await store.write(upkeep.prune, PruneRequest(limit=3)) is True
    assert look("SELECT count(*) FROM job") == [(5,)]
    while await store.write(upkeep.prune, PruneRequest(limit=3)):
        pass
    assert everything(look, "job", "workflow") == [[], []]


async def test_what_a_restore_holds_is_counted(store):
    workflow = await started(store, {"a": [], "b": ["a"]})
    failure = PERMANENT.failure
    store.write(backup_scripts.hold_restored, RestoredHold(failure, triage(failure))).result()
    store.write(backup_scripts.pause_restored, RestoredPause(jobs_held=True)).result()
    assert await states(store, workflow) == {"a": "held", "b": "waiting"}
    assert await progress(store, workflow) == "stuck"
    await replayed(store, (await steps(store, workflow))["a"].id)
    await done(store, "a")
    await done(store, "b")
    assert await progress(store, workflow) == "completed"


# --- looking


async def test_results_beyond_a_bound_are_read_when_they_are_asked_for(store, monkeypatch):
    monkeypatch.setattr("standfast.wings.workflows.scripts.LARGEST_HAND_OVER", 10)
    await started(store, {"a": [], "b": [], "c": ["a", "b"]})
    a, b = await claims(store, "a", "b")
    await ended(store, a, Succeeded('"small"'))
    await ended(store, b, Succeeded('"too much"'))
    [c] = await claims(store, "c")
    assert c.parents is not None
    assert (c.parents["a"].result, c.parents["a"].left_out) == ('"small"', False)
    assert (c.parents["b"].result, c.parents["b"].left_out) == (None, True)
    assert store.read(graphs.result(c.parents["b"].n)).result() == '"too much"'


async def test_a_result_that_many_wait_for_is_read_once(store):
    await started(store, {"a": [], **{f"b{n}": ["a"] for n in range(5)}})
    await done(store, "a")
    found = [(claim.parents or {})["a"] for claim in await claims(store, *(f"b{n}" for n in range(5)))]
    assert len({id(parent) for parent in found}) == 1


async def test_a_round_without_steps_asks_nothing_about_workflows(store, monkeypatch):
    asked: list[str] = []

    class Recorded(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            asked.append(name)
            return super().__getitem__(name)

    monkeypatch.setattr(sqlite_engine, "STATEMENTS", Recorded(sqlite_engine.STATEMENTS))
    monkeypatch.setattr(postgres_driver, "NUMBERED", Recorded(postgres_driver.NUMBERED))
    await one(store)
    await ended(store, await claim_one(store), Succeeded("1"))
    assert "complete_jobs" in asked
    about = {"count_parents_down", "waiting_behind", "tally_workflows", "parents_of", "set_progress", "end_workflow"}
    assert not about & set(asked)


async def test_waiting_jobs_are_counted_apart(store):
    await started(store)
    assert (await store.read(job_counts(store.now())))["mail"].waiting == 3


async def test_a_step_that_waits_for_final_steps_only_is_silent(store, change):
    await started(store, {"a": [], "b": ["a"]})
    assert (
        await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=30, unmoved_for=20))
    ).silent == {}
    change("UPDATE job SET state = 'cancelled', finished_at = 1, ready_at = NULL WHERE state = 'queued'")
    assert (
        await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=30, unmoved_for=20))
    ).silent == {"mail": 1}


async def test_the_stuck_ones_are_named(store):
    workflow = await started(store, {"a": [], "b": ["a"]})
    await started(store, {"a": []})
    assert await store.read(graphs.stuck(10)) == []
    a, *_ = await claimed(store, slots=1)
    await ended(store, a, PERMANENT)
    assert await store.read(graphs.stuck(10)) == [(workflow, "nightly", 1, 2)]


async def test_workflows_are_listed_newest_first(store):
    ids = [await started(store, {"a": []}) for _ in range(3)]
    assert [row.id for row in await store.read(graphs.list_workflows(None, 2, None))] == ids[:0:-1]
    assert [row.id for row in await store.read(graphs.list_workflows(None, 2, ids[1]))] == ids[:1]
    await store.write(graphs.cancel, Cancellation(ids[1], "ann"))
    assert [row.id for row in await store.read(graphs.list_workflows("cancelled", 9, None))] == [ids[1]]


async def test_notices_tell_how_a_workflow_comes_along(store, look):
    workflow = await started(store, {"a": [], "b": ["a"]})
    [a] = await claims(store, "a")
    await ended(store, a, PERMANENT)
    await replayed(store, a.id)
    await done(store, "a")
    await done(store, "b")
    await journal_script(store, 0, 1)
    rows = journal(look("SELECT entries FROM journal ORDER BY seq"))
    told = [kind for row in rows for kind, _, ids in row if ids == [workflow]]
    assert told == ["workflow_started", "workflow_stuck", "workflow_resumed", "workflow_completed"]


async def test_a_wide_graph_is_stored_in_bites_and_ends(store, monkeypatch):
    monkeypatch.setattr("standfast.wings.workflows.graphs.MOST_ROWS", 7)
    monkeypatch.setattr("standfast.wings.workflows.graphs.STEPS_AT_ONCE", 10)
    middle = [f"m{n}" for n in range(40)]
    workflow = await started(store, {"a": [], **{name: ["a"] for name in middle}, "z": middle})
    await done(store, "a")
    await done(store, *middle)
    [z] = await claims(store, "z")
    assert [json.loads(parent.result or "") for parent in (z.parents or {}).values()] == middle
    await ended(store, z, Succeeded())
    assert set((await states(store, workflow)).values()) == {State.COMPLETED}
