"""A refusal that says when: it spends no attempt, waits as asked, and has other jobs for the destination wait, too."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import httpx
import pytest

from standfast import Standfast, Transient
from standfast.testing import drain
from standfast.wings.limits.holds import MOST_IN_A_ROW
from standfast.worker import claimer
from tests.waiting import failure_of, job_of


def refusal(seconds: float = 60, status: int = 429) -> Exception:
    """Give what a client raises when its receiver says when to come back."""
    request = httpx.Request("POST", "https://crm.example/")
    response = httpx.Response(status, headers={"Retry-After": str(seconds)}, request=request)
    wrapped = RuntimeError("the sync failed")
    wrapped.__cause__ = httpx.HTTPStatusError("refused", request=request, response=response)
    return wrapped


def refusing(sf: Standfast, queue: str = "crm", **rules) -> tuple[list[int], list[Exception]]:
    """Declare a queue whose attempts end in these errors, then succeed; give the numbers it ran, and the errors."""
    runs: list[int] = []
    errors: list[Exception] = []
    sf.queue(queue, attempts=2, **rules)

    @sf.handler(queue)
    async def handle(job):
        runs.append(job.payload["n"])
        if errors:
            raise errors.pop(0)

    return runs, errors


async def test_a_refusal_spends_no_attempt_and_waits_exactly_as_long_as_it_says(sf):
    runs, errors = refusing(sf)
    errors += [refusal(60), refusal(7, 503)]
    receipt = await sf.enqueue("crm", {"n": 1})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.attempts, job.deferrals, job.state) == (0, 1, "queued")
    assert job.due_at - job.created_at == timedelta(seconds=60)
    [line] = job.history
    assert (line.refused, line.reason_code, line.landed, line.delay) == (True, "rate_limited", "no", 60.0)
    assert "asked to wait until 00:01:00 UTC, which is in 1 min. No attempt was spent." in await sf.explain(job.id)
    sf.clock.advance(59)
    assert not await drain(sf)
    sf.clock.advance(1)
    await drain(sf)
    sf.clock.advance(7)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (runs, job.state, job.attempts, job.deferrals) == ([1, 1, 1], "completed", 1, 2)


async def test_a_retry_while_the_receiver_has_everyone_wait_says_when_the_job_goes_on(sf):
    runs, errors = refusing(sf, breaker={"dependency": "crm"})
    errors += [refusal(60)]
    refused = await sf.enqueue("crm", {"n": 1})
    await drain(sf)
    parked = await sf.enqueue("crm", {"n": 2})
    await drain(sf)
    until = (await job_of(sf, refused.id)).created_at + timedelta(seconds=60)
    for receipt in (refused, parked, refused):
        said = await sf.retry(receipt.id)
        assert datetime.fromisoformat(said["retry_at"]) == until
        assert "crm asked to wait until 00:01:00 UTC" in said["hint"]
        await drain(sf)
    assert runs == [1]
    for seconds in (60, 1):  # the first batch is one job
        sf.clock.advance(seconds)
        await drain(sf)
    assert sorted(runs) == [1, 1, 2]


async def test_a_refusal_without_a_time_spends_an_attempt(sf):
    _, errors = refusing(sf)
    plain = httpx.Response(503, request=httpx.Request("POST", "https://crm.example/"))
    errors += [httpx.HTTPStatusError("busy", request=plain.request, response=plain)]
    receipt = await sf.enqueue("crm", {"n": 1})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.attempts, job.deferrals, job.view) == (1, 0, "retry_pending")


async def test_a_handlers_own_time_spends_an_attempt(sf):
    _, errors = refusing(sf)
    errors += [Transient("busy", retry_after=30)]
    receipt = await sf.enqueue("crm", {"n": 1})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.attempts, job.history[0].delay, job.history[0].refused) == (1, 30.0, False)


async def test_after_fifty_refusals_in_a_row_an_attempt_counts(sf):
    runs, errors = refusing(sf)
    errors += [refusal(1) for _ in range(2 * MOST_IN_A_ROW + 2)]
    receipt = await sf.enqueue("crm", {"n": 1})
    for _ in range(MOST_IN_A_ROW):
        await drain(sf)
        sf.clock.advance(1)
    job = await job_of(sf, receipt.id)
    assert (len(runs), job.attempts, job.deferrals) == (MOST_IN_A_ROW, 0, MOST_IN_A_ROW)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.attempts, job.history[-1].refused, job.history[-1].delay) == (1, False, 1.0)
    for _ in range(MOST_IN_A_ROW + 1):
        sf.clock.advance(1)
        await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (len(runs), job.state, job.attempts) == (2 * MOST_IN_A_ROW + 2, "dead", 2)
    assert (failure_of(job).reason_code, failure_of(job).cause) == ("max_attempts", "rate_limited")


async def test_refusals_are_counted_by_the_store_not_by_the_process(url):
    """Another process that goes on with the job knows how often it was refused."""
    for _ in range(2):
        async with Standfast(url) as sf:
            runs, errors = refusing(sf)
            errors += [refusal(0) for _ in range(29)] + [refusal(3600)]
            receipt = await sf.enqueue("crm", {"n": 1}, idempotency_key="k")
            await sf.retry(receipt.id)
            await drain(sf)
            assert len(runs) == 30
            job = await job_of(sf, receipt.id)
    assert (job.attempts, sum(line.refused for line in job.history)) == (1, 59)


async def test_a_replay_begins_to_count_anew(sf):
    runs, errors = refusing(sf)
    errors += [refusal(1) for _ in range(10)] + [Transient("gone"), Transient("gone")]
    receipt = await sf.enqueue("crm", {"n": 1})
    for _ in range(14):
        await drain(sf)
        sf.clock.advance(300)
    assert (await job_of(sf, receipt.id)).state == "dead"
    await sf.dead_letters.replay(receipt.id, by="ann")
    errors += [refusal(1) for _ in range(MOST_IN_A_ROW)]
    for _ in range(MOST_IN_A_ROW):
        await drain(sf)
        sf.clock.advance(1)
    job = await job_of(sf, receipt.id)
    assert (job.attempts, job.deferrals, len(runs)) == (2, 10 + MOST_IN_A_ROW, 12 + MOST_IN_A_ROW)


async def test_max_age_bounds_how_long_a_job_is_refused(sf):
    _, errors = refusing(sf, max_age="2m")
    errors += [refusal(70) for _ in range(9)]
    receipt = await sf.enqueue("crm", {"n": 1})
    for _ in range(4):
        await drain(sf)
        sf.clock.advance(70)
    job = await job_of(sf, receipt.id)
    assert (job.state, failure_of(job).reason_code, job.deferrals) == ("dead", "max_age", 2)


@pytest.mark.parametrize("mode", ["replay", "manual"])
async def test_what_was_refused_before_anything_happened_runs_again_in_every_mode(sf, mode):
    runs = []

    @sf.handler("crm", replay=mode)
    async def handle(job):
        runs.append(job.attempt)
        if len(runs) == 1:
            raise refusal(5)

    receipt = await sf.enqueue("crm", {})
    await drain(sf)
    sf.clock.advance(5)
    await drain(sf)
    assert ((await job_of(sf, receipt.id)).state, runs) == ("completed", [1, 1])


async def test_what_may_have_landed_before_it_was_refused_is_not_run_again_by_hand_mode(sf):
    @sf.handler("crm", replay="manual")
    async def handle(_job):
        error = RuntimeError("while handling")
        error.__context__ = refusal(5).__cause__
        raise error

    receipt = await sf.enqueue("crm", {})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, failure_of(job).reason_code, failure_of(job).cause) == (
        "dead",
        "unknown_commit_state",
        "rate_limited",
    )


async def test_a_possible_duplicate_is_written_down_before_a_refused_job_runs_again(sf):
    @sf.handler("crm")
    async def handle(_job):
        error = RuntimeError("while handling")
        error.__context__ = refusal(5).__cause__
        raise error

    receipt = await sf.enqueue("crm", {})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.attempts, job.history[0].landed, job.history[0].possible_duplicate) == (0, "maybe", True)


async def test_a_call_that_is_refused_is_queued_and_says_when(sf):
    _, errors = refusing(sf)
    errors += [refusal(60)]
    reply = await sf.run("crm", {"n": 1})
    assert (reply["status"], reply["queued_for_retry"], reply["reason_code"]) == ("queued", True, "rate_limited")
    assert "refused it for now" in reply["hint"]


async def test_the_log_says_that_no_attempt_is_spent(sf, caplog):
    _, errors = refusing(sf)
    errors += [refusal(60)]
    await sf.enqueue("crm", {"n": 1})
    with caplog.at_level(logging.INFO, "standfast.worker"):
        await drain(sf)
    assert "its receiver asked to wait 1 min, and no attempt is spent" in caplog.text


# --- other jobs for the same destination


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no job beside one that takes long, because the machine is busy."""
    monkeypatch.setattr(claimer, "A_MOMENT", 60.0)


async def one_by_one(sf) -> None:
    """Run what is due with one slot, so that each job is claimed after the one before has ended."""
    await sf.worker(concurrency=1).run_due()


KEYED = [
    ({"breaker": {"dependency": "crm"}}, "crm"),
    ({"rate": {"key": "payload.tenant", "limit": 100, "per": "1s"}, "breaker": False}, "payload.tenant=a"),
    ({"concurrency": {"key": "payload.tenant", "limit": 9}}, "payload.tenant=a"),
]


@pytest.mark.parametrize(("rules", "name"), KEYED)
async def test_other_jobs_for_the_same_destination_wait_without_being_tried(sf, rules, name):
    runs, errors = refusing(sf, **rules)
    errors += [refusal(60)]
    ids = [(await sf.enqueue("crm", {"n": n, "tenant": "a"})).id for n in range(1, 4)]
    await one_by_one(sf)
    assert runs == [1]
    waiting = await job_of(sf, ids[1])
    assert (waiting.view, waiting.parked_on, waiting.attempts) == ("parked", f"hold:crm:{name}", 0)
    sentence = await sf.explain(ids[1])
    assert f"{name} asked to wait until 00:01:00 UTC, which is in 1 min. No attempt is spent." in sentence
    late = (await sf.enqueue("crm", {"n": 4, "tenant": "a"})).id
    await one_by_one(sf)
    assert runs == [1]
    sf.clock.advance(60)
    for _ in range(3):
        await one_by_one(sf)
        sf.clock.advance(1)
    assert sorted(runs) == [1, 1, 2, 3, 4]
    assert {(await job_of(sf, job_id)).state for job_id in (*ids, late)} == {"completed"}
    assert {(await job_of(sf, job_id)).attempts for job_id in (*ids, late)} == {1}
    assert "hold" not in {gate["kind"] for gate in (await sf.stats())["gates"]}


async def test_another_key_does_not_wait(sf):
    runs, errors = refusing(sf, concurrency={"key": "payload.tenant", "limit": 9})
    errors += [refusal(60)]
    for n, tenant in enumerate("aabb", 1):
        await sf.enqueue("crm", {"n": n, "tenant": tenant})
    await one_by_one(sf)
    assert runs == [1, 3, 4]


async def test_another_queue_does_not_wait(sf):
    _, errors = refusing(sf, breaker={"dependency": "crm"})
    other, _ = refusing(sf, "other", breaker={"dependency": "crm"})
    errors += [refusal(60)]
    await sf.enqueue("crm", {"n": 1})
    await one_by_one(sf)
    await sf.enqueue("other", {"n": 2})
    await one_by_one(sf)
    assert other == [2]


async def test_without_a_destination_each_job_waits_for_itself(sf):
    runs, errors = refusing(sf)
    errors += [refusal(60)]
    for n in (1, 2):
        await sf.enqueue("crm", {"n": n})
    await one_by_one(sf)
    assert runs == [1, 2]


async def test_of_two_times_the_later_holds(sf):
    runs, errors = refusing(sf, breaker={"dependency": "crm"})
    errors += [refusal(60), refusal(600)]
    for n in (1, 2, 3):
        await sf.enqueue("crm", {"n": n})
    await sf.worker(concurrency=2).run_due()
    assert sorted(runs) == [1, 2]
    sf.clock.advance(599)
    await one_by_one(sf)
    assert sorted(runs) == [1, 2]
    sf.clock.advance(2)
    for _ in range(3):
        await one_by_one(sf)
        sf.clock.advance(1)
    assert sorted(runs) == [1, 1, 2, 2, 3]


async def test_a_refusal_does_not_trip_the_breaker(sf):
    _, errors = refusing(sf, breaker={"dependency": "crm", "failures": 1, "open_for": 5})
    errors += [refusal(60, 503)]
    await sf.enqueue("crm", {"n": 1})
    await drain(sf)
    assert [gate["kind"] for gate in (await sf.stats())["gates"]] == ["hold"]


async def test_a_crowd_that_waited_follows_in_batches(sf):
    runs, errors = refusing(sf, breaker={"dependency": "crm"})
    errors += [refusal(60)]
    for n in range(30):
        await sf.enqueue("crm", {"n": n})
    await one_by_one(sf)
    sf.clock.advance(60)
    await one_by_one(sf)
    first = len(runs)
    for _ in range(3):
        sf.clock.advance(1)
        await one_by_one(sf)
    assert (first, len(runs)) == (10, 31)


async def test_health_names_a_destination_that_asks_to_wait_for_long(sf):
    _, errors = refusing(sf, breaker={"dependency": "crm"})
    errors += [refusal(2 * 3600)]
    await sf.enqueue("crm", {"n": 1})
    await drain(sf)
    assert "crm: crm asked its callers to wait for 2 h" in (await sf.health())["issues"]
