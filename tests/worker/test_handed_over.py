"""submit and hand_over, and the results that replies carry."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import ConfigurationError, FileEffect, Permanent, Transient, Uncertain, fixed
from standfast.testing import drain
from tests.store.suite import claim_one
from tests.waiting import job_of
from tests.worker.counted import counting
from tests.worker.inside import store_of

# --- submit


async def test_a_submission_is_answered_at_once_and_tried_once(sf):
    @sf.handler("mail")
    async def mail(_job):
        raise Transient("not now")

    said = await mail.submit({"to": "ada"}, session="s-1", priority=7, idempotency_key="k")
    assert (said["status"], said["queue_reason"], said["queued_for_retry"]) == ("queued", "deferred_submit", False)
    assert "It is not done yet" in said["hint"]
    job = await job_of(sf, said["operation_id"])
    assert (job.max_attempts, job.priority, job.session, job.attempts) == (1, 7, "s-1", 0)
    assert (await mail.submit({"to": "ada"}, idempotency_key="k"))["operation_id"] == job.id
    await drain(sf)
    job = await job_of(sf, job.id)
    assert (job.state, job.reason, job.attempts) == ("dead", "max_attempts", 1)
    assert (await mail.submit({"to": "ada"}, idempotency_key="k"))["status"] == "failed"


async def test_a_submission_has_a_long_lease_of_its_own(sf):
    counting(sf)
    said = await sf.submit("mail", 1)
    claim = await claim_one(store_of(sf), queue="mail")
    assert (claim.id, claim.lease) == (said["operation_id"], 600.0)


# --- hand_over


@pytest.mark.parametrize(
    ("replay", "error", "expected"),
    [
        ("replay", TimeoutError("no answer"), ("queued", "timeout")),
        ("replay", ConnectionRefusedError("down"), ("queued", "dependency_unavailable")),
        ("replay", {"success": False, "error": "bridge is down"}, ("queued", "unclassified_error")),
        ("replay", {"error_kind": "timeout"}, ("queued", "timeout")),
        ("replay", {"path": "x"}, ("queued", "unclassified_error")),
        ("replay", "bridge is down", ("queued", "unclassified_error")),
        ("replay", Permanent("never"), ("failed", "handler_refused")),
        ("verify_first", TimeoutError("no answer"), ("queued", "timeout")),
        ("manual", TimeoutError("no answer"), ("timeout", "unknown_commit_state")),
        ("manual", Uncertain("who knows"), ("failed", "unknown_commit_state")),
        ("manual", Transient("later"), ("failed", "dependency_unavailable")),
    ],
)
async def test_a_call_that_failed_elsewhere_counts_as_an_attempt(sf, replay, error, expected, tmp_path):
    sf.queue("mail", backoff=fixed(10))
    calls = counting(sf, replay=replay, effects=[FileEffect("note", tmp_path / "note", "hello")])
    said = await sf.hand_over("mail", 1, error, session="s-1")
    job = await job_of(sf, said["operation_id"])
    assert (said["status"], said["reason_code"]) == expected
    assert (job.attempts, job.session) == (1, "s-1")
    assert [line.attempt for line in job.history] == [1]
    await drain(sf)
    assert not calls, "not before its backoff"
    sf.clock.advance(11)
    await drain(sf)
    assert calls == ({1: 1} if said["status"] == "queued" else {})
    job = await job_of(sf, job.id)
    assert job.attempts == (2 if said["status"] == "queued" else 1)
    if said["status"] != "queued":
        assert [each.id for each in (await sf.dead_letters.list())] == [job.id], "a person sees it"


async def test_what_was_handed_over_and_had_landed_is_not_run_again(sf, tmp_path):
    (tmp_path / "note").write_text("hello")
    calls = counting(sf, replay="verify_first", effects=[FileEffect("note", tmp_path / "note", "hello")])
    said = await sf.hand_over("mail", 1, TimeoutError())
    sf.clock.advance(60)
    await drain(sf)
    assert ((await job_of(sf, said["operation_id"])).warning, calls) == ("post_write_recovery", {})


async def test_what_is_no_error_is_not_handed_over(sf):
    wrongs: list[Any] = [None, 7, [], {"success": True, "result": 1}]
    for wrong in wrongs:
        with pytest.raises(ConfigurationError, match=r"hand_over takes .*a call that failed"):
            await sf.hand_over("mail", 1, wrong)
    assert await sf.jobs() == []


async def test_a_retry_after_is_honoured_and_an_exhausted_round_dies(sf):
    sf.queue("mail", attempts=1)
    said = await sf.hand_over("mail", 1, Transient("later", retry_after=5))
    assert (said["status"], said["reason_code"]) == ("failed", "max_attempts")
    sf.queue("mail", attempts=2)
    said = await sf.hand_over("mail", 1, Transient("later", retry_after=77))
    job = await job_of(sf, said["operation_id"])
    assert (job.due_at - job.created_at).total_seconds() == 77


async def test_a_call_handed_over_under_the_key_of_a_waiting_job_is_its_first_attempt(sf):
    sf.queue("mail", backoff=fixed(10))
    calls = counting(sf)
    first = await sf.enqueue("mail", 1, idempotency_key="k")
    said = await sf.hand_over("mail", 1, TimeoutError("no answer"), idempotency_key="k")
    job = await job_of(sf, first.id)
    assert (said["operation_id"], said["status"], said["reason_code"]) == (job.id, "queued", "timeout")
    assert (job.attempts, [line.reason_code for line in job.history]) == (1, ["timeout"])
    await sf.hand_over("mail", 1, TimeoutError("no answer"), idempotency_key="k")
    assert (await job_of(sf, job.id)).attempts == 1, "it has begun, and its call is taken over once"
    await drain(sf)
    assert not calls, "not before its backoff"
    sf.clock.advance(11)
    await drain(sf)
    assert ((await job_of(sf, job.id)).state, calls) == ("completed", {1: 1})


async def test_a_waiting_job_whose_call_may_have_landed_elsewhere_is_not_run(sf):
    calls = counting(sf, replay="manual")
    first = await sf.enqueue("mail", 1, idempotency_key="k")
    said = await sf.hand_over("mail", 1, TimeoutError("no answer"), idempotency_key="k")
    assert (said["operation_id"], said["reason_code"]) == (first.id, "unknown_commit_state")
    await drain(sf)
    assert ((await job_of(sf, first.id)).state, calls) == ("dead", {})


async def test_a_submission_that_its_caller_tried_first_has_had_its_one_attempt(sf):
    calls = counting(sf)
    first = await sf.submit("mail", 1, idempotency_key="k")
    said = await sf.hand_over("mail", 1, TimeoutError("no answer"), idempotency_key="k")
    assert (said["operation_id"], said["reason_code"]) == (first["operation_id"], "max_attempts")
    await drain(sf)
    assert not calls


async def test_a_job_that_is_due_later_is_not_started_sooner_by_a_call_that_failed(sf):
    sf.queue("mail", backoff=fixed(10))
    first = await sf.enqueue("mail", 1, delay=3600, idempotency_key="k")
    due = (await job_of(sf, first.id)).due_at
    await sf.hand_over("mail", 1, TimeoutError("no answer"), idempotency_key="k")
    job = await job_of(sf, first.id)
    assert (job.attempts, job.due_at) == (1, due)


async def test_a_failed_call_spends_no_attempt_of_another_sessions_job(sf):
    first = await sf.enqueue("mail", 1, session="s-1", idempotency_key="k")
    await sf.hand_over("mail", 1, TimeoutError("no answer"), session="s-2", idempotency_key="k")
    assert (await job_of(sf, first.id)).attempts == 0


async def test_a_failed_call_of_a_waiting_job_in_a_thread_lets_the_next_one_go_first(sf):
    sf.queue("mail", coalesce="never")
    calls = counting(sf)
    first = await sf.enqueue("mail", 1, thread_key="t", idempotency_key="k")
    second = await sf.enqueue("mail", 2, thread_key="t")
    await sf.hand_over("mail", 1, Permanent("never"), idempotency_key="k")
    await drain(sf)
    assert ((await job_of(sf, first.id)).state, (await job_of(sf, second.id)).state) == ("dead", "completed")
    assert calls == {2: 1}


async def test_a_failed_call_spends_no_attempt_of_a_job_that_became_other_work(sf):
    calls = counting(sf)
    sf.queue("mail", coalesce="latest")
    first = await sf.enqueue("mail", 1, thread_key="t", idempotency_key="k")
    assert (await sf.enqueue("mail", 2, thread_key="t")).outcome == "coalesced"
    await sf.hand_over("mail", 1, Permanent("never"), idempotency_key="k")
    await drain(sf)
    assert ((await job_of(sf, first.id)).state, calls) == ("completed", {2: 1})


# --- results


async def test_a_long_result_is_cut_and_fetched_by_id_and_key(sf):
    @sf.handler("mail")
    async def mail(_job):
        return {"text": "x" * 100_000, "pages": 7}

    said = await mail.run()
    assert (said["result"]["_truncated"], said["result"]["keys"]) == (True, ["pages", "text"])
    assert len(said["result"]["text"]) == 100_000
    assert "result(operation_id, key)" in said["hint"]
    assert await sf.result(said["operation_id"], "pages") == 7
    assert len((await sf.result(said["operation_id"]))["text"]) == 100_000
    with pytest.raises(ConfigurationError, match="has no key 'page'; its keys are 'pages', 'text'"):
        await sf.result(said["operation_id"], "page")


async def test_a_key_of_what_has_none_is_a_clear_error(sf):
    counting(sf)

    @sf.handler("list")
    async def listed(_job):
        return [1]

    waits = await sf.submit("mail", 1)
    with pytest.raises(ConfigurationError, match="is queued, so it has no result yet"):
        await sf.result(waits["operation_id"], "got")
    with pytest.raises(ConfigurationError, match="has a result of type list, without keys"):
        await sf.result((await listed.run())["operation_id"], "got")
