"""How far jobs are, and looks at their effects, in the store: fenced by the token, and deleted with their jobs."""

from __future__ import annotations

from standfast.outcome import Succeeded
from standfast.rules import QueueRules
from standfast.wings.effects.findings import LookResult
from standfast.wings.effects.scripts import LookResults, keep_looks
from standfast.wings.progress.scripts import ProgressReport, write_reports
from standfast.worker.pruner import Pruner
from tests.store.suite import claim_one, ended, enqueued, everything, failed, new_job, publish, seen


async def test_only_the_attempt_that_has_the_job_says_how_far_it_is(store, look):
    await enqueued(store, new_job())
    claim = await claim_one(store)
    reports = [ProgressReport(claim.n, token, 1, 0.5, None) for token in (claim.token - 1, claim.token + 1)]
    await store.write_all(write_reports, reports)
    assert everything(look, "job_progress") == [[]]
    await store.write(write_reports, ProgressReport(claim.n, claim.token, 1, 0.25, "a quarter"))
    progress = (await seen(store, claim.id)).progress
    assert progress is not None
    assert (progress["fraction"], progress["note"], progress["attempt"]) == (0.25, "a quarter", 1)


async def test_what_attempts_said_and_saw_is_deleted_with_their_jobs(store, look, clock):
    """A row of a job that is gone would stay for good."""
    publish(store, mail=QueueRules(keep_completed=10.0))
    await enqueued(store, new_job())
    claim = await claim_one(store)
    await store.write(write_reports, ProgressReport(claim.n, claim.token, 1, 0.5, None))
    looks = [LookResult("ticket", "absent"), LookResult("mail", "verified", '"m-1"')]
    for _ in range(2):
        assert await store.write(keep_looks, LookResults(claim.n, claim.token, claim.id, 1, looks))
    assert [len(rows) for rows in everything(look, "job_progress", "look")] == [1, 4]
    await ended(store, claim, Succeeded())
    clock.advance(1000)
    await Pruner(store).prune()
    assert everything(look, "job", "job_progress", "look") == [[], [], []]


async def test_two_looks_of_one_moment_are_two(store):
    await enqueued(store, new_job())
    claim = await claim_one(store)
    for verdict in ("absent", "partial"):
        await store.write(keep_looks, LookResults(claim.n, claim.token, claim.id, 1, [LookResult("ticket", verdict)]))
    await ended(store, claim, failed())
    assert [each["verdict"] for each in (await seen(store, claim.id)).effects] == ["absent", "partial"]
