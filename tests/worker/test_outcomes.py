"""How an attempt ends, and what becomes of its job. The clock stands still, so every delay is exact."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import pytest

from standfast import Cancel, JobView, Permanent, Snooze, Transient, Uncertain, fixed, no_backoff
from standfast.store.upkeep import Sweep
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.worker.sweeper import Sweeper
from tests.waiting import failure_of, job_of
from tests.worker.inside import refuse_the_end_of, store_of


class Raises:
    """A handler that counts its runs and ends each as the next item says; the last one goes on for good."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)
        self.attempts: list[int] = []

    async def __call__(self, job: Any) -> Any:
        self.attempts.append(job.attempt)
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, BaseException):
            raise end
        return end


async def after(sf: InMemory, handler: Any, *, replay: Any = "replay", soft: bool = True, **rules: Any) -> JobView:
    """Enqueue one job for this handler, run all that is due, and look at it."""
    sf.queue("mail", **{"backoff": fixed(10), **rules})
    sf.handler("mail", replay=replay, soft=soft)(handler)
    receipt = await sf.enqueue("mail", {"to": "a@b.c"})
    await drain(sf)
    return await job_of(sf, receipt.id)


class Kinded(Exception):
    """An application's own error with a kind that says what it means."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.error_kind = kind


# --- success


@pytest.mark.parametrize("result", [{"sent": 3}, [1, "two", None], "text", 0, False, {"success": True, "error": "old"}])
async def test_a_result_is_stored(sf, result):
    job = await after(sf, Raises(result))
    assert (job.state, job.result, job.warning, job.attempts) == ("completed", result, None, 1)
    assert await sf.result(job.id) == result


async def test_none_is_success(sf):
    job = await after(sf, Raises(None))
    assert (job.state, job.result, job.warning, job.history) == ("completed", None, None, [])


@dataclass
class Sent:
    """What a handler may return instead of a dict."""

    to: str
    by: Any = None


async def test_a_typed_result_is_stored_as_json(sf):
    assert (await after(sf, Raises(Sent("a@b.c")))).result == {"to": "a@b.c", "by": None}


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {1: "key"},
        {"x": math.nan},
        {"x": "\0"},
        {"x": "\ud800"},
        2**65,
        "x" * (1 << 20),
        Sent("a", by=os.stat),
    ],
    ids=["object", "key", "nan", "nul", "surrogate", "integer", "size", "field"],
)
async def test_a_result_that_cannot_be_kept_never_fails_a_finished_attempt(sf, result):
    handler = Raises(result)
    job = await after(sf, handler)
    assert (job.state, job.result, job.warning) == ("completed", None, "result_not_stored")
    assert handler.attempts == [1]


# --- soft failures


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"success": False}, ("unknown", "maybe", "unclassified_error", None)),
        ({"error": "smtp said no"}, ("unknown", "maybe", "unclassified_error", None)),
        ({"error_kind": "rate_limited"}, ("transient", "no", "rate_limited", "rate_limited")),
        ({"verified": "absent"}, ("transient", "maybe", "unverified", None)),
        ({"success": True, "verified": False}, ("transient", "maybe", "unverified", None)),
        ({"success": True, "error_kind": "timeout"}, ("transient", "maybe", "timeout", "timeout")),
    ],
)
async def test_a_result_can_tell_of_a_failure(sf, result, expected):
    job = await after(sf, Raises(result))
    [line] = job.history
    assert job.view == "retry_pending"
    assert (line.cls, line.landed, line.reason_code, line.error_kind) == expected


async def test_soft_false_takes_every_result_as_success(sf):
    job = await after(sf, Raises({"success": False, "error": "x"}), soft=False)
    assert (job.state, job.result) == ("completed", {"success": False, "error": "x"})


# --- snooze and cancel


async def test_snooze_comes_back_without_spending_an_attempt(sf):
    handler = Raises(Snooze(30), Snooze(30), None)
    job = await after(sf, handler, attempts=1)
    assert (job.state, job.attempts, job.deferrals, job.view) == ("queued", 0, 1, "scheduled")
    [line] = job.history
    assert (line.attempt, line.reason_code, line.delay, line.cls) == (1, "snoozed", 30, None)
    sf.clock.advance(29)
    assert not await drain(sf)
    sf.clock.advance(1)
    await drain(sf)
    sf.clock.advance(30)
    await drain(sf)
    job = await job_of(sf, job.id)
    assert (job.state, job.attempts, job.deferrals) == ("completed", 1, 2)


async def test_cancel_is_final_and_says_why(sf):
    job = await after(sf, Raises(Cancel("the user left")))
    assert (job.state, job.warning, job.failure) == ("cancelled", "the user left", None)


async def test_a_cancel_whose_reason_no_store_takes_still_ends(sf):
    job = await after(sf, Raises(Cancel("gone \ud800")))
    assert (job.state, job.warning) == ("cancelled", "gone \ufffd")


@pytest.mark.parametrize(("word", "given"), [(Snooze, "5m"), (Snooze, None), (Cancel, 404)])
async def test_snooze_and_cancel_refuse_what_they_cannot_mean(sf, word, given):
    async def handler(_job):
        return word(given)

    job = await after(sf, handler, attempts=1)
    assert (job.state, job.reason) == ("dead", "max_attempts")
    assert word.__name__ in failure_of(job).message


# --- failures


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (Transient("down"), ("transient", "no", "dependency_unavailable", "Transient", "down")),
        (Uncertain("cut off"), ("transient", "maybe", "unknown_commit_state", "Uncertain", "cut off")),
        (KeyError("x"), ("unknown", "maybe", "unclassified_error", "KeyError", "'x'")),
        (ConnectionRefusedError("no"), ("transient", "no", "dependency_unavailable", "ConnectionRefusedError", "no")),
        (Kinded("rate_limited"), ("transient", "no", "rate_limited", "rate_limited", "rate_limited")),
        (
            Transient("later", reason_code="quota", error_kind="tokens"),
            ("transient", "no", "quota", "tokens", "later"),
        ),
    ],
)
async def test_what_a_handler_raises_is_classified_and_retried(sf, raised, expected):
    job = await after(sf, Raises(raised))
    [line] = job.history
    assert job.view == "retry_pending"
    assert (line.cls, line.landed, line.reason_code, line.error_kind, line.message) == expected
    assert failure_of(job).advice
    assert line.possible_duplicate == (line.landed == "maybe")


@pytest.mark.parametrize(
    ("end", "code", "cls"),
    [
        (Permanent("no such user"), "handler_refused", "permanent"),
        (Permanent("no", reason_code="denied"), "denied", "permanent"),
        (Kinded("user_action_required"), "user_action_required", "permanent"),
        ({"success": False, "error_kind": "consent_required"}, "user_action_required", "permanent"),
        ({"error_kind": "validation_error"}, "schema_invalid", "permanent"),
    ],
)
async def test_what_repeating_cannot_mend_stops_at_once(sf, end, code, cls):
    handler = Raises(end)
    job = await after(sf, handler)
    assert (job.state, job.reason, failure_of(job).cls, job.attempts) == ("dead", code, cls, 1)
    assert handler.attempts == [1]
    assert job.triage is not None
    assert job.triage.action in {"manual_review", "quarantine"}


async def test_a_permanent_failure_during_a_retry_stops_at_once(sf):
    handler = Raises(Transient("down"), Permanent("gone"))
    job = await after(sf, handler, backoff=no_backoff())
    assert (job.state, job.reason, job.attempts, job.max_attempts) == ("dead", "handler_refused", 2, 5)
    assert handler.attempts == [1, 2]
    assert job.first_failure is not None
    assert job.first_failure.reason_code == "dependency_unavailable"


async def test_the_attempt_ceiling_ends_dead_with_the_whole_history(sf):
    handler = Raises(Transient("first"), Kinded("timeout"), Transient("third"))
    job = await after(sf, handler, attempts=3)
    started = sf.clock.wall()
    assert job.view == "retry_pending"
    for _ in range(2):
        sf.clock.advance(10)
        await drain(sf)
    job = await job_of(sf, job.id)
    assert (job.state, job.reason, job.attempts, job.max_attempts) == ("dead", "max_attempts", 3, 3)
    assert (failure_of(job).cls, failure_of(job).landed, failure_of(job).message) == ("transient", "no", "third")
    lines = [(line.attempt, line.cls, line.error_kind, line.reason_code) for line in job.history]
    assert lines == [
        (1, "transient", "Transient", "dependency_unavailable"),
        (2, "transient", "timeout", "timeout"),
        (3, "transient", "Transient", "dependency_unavailable"),
    ]
    assert [line.at.timestamp() - started for line in job.history] == [0, 10, 20]
    assert [line.delay is not None and 9 <= line.delay <= 10 for line in job.history[:2]] == [True, True]
    assert job.history[2].delay is None
    assert all(line.worker and str(os.getpid()) in line.worker for line in job.history)
    assert job.first_failure is not None
    assert job.first_failure.message == "first"


async def test_a_job_can_bring_its_own_number_of_attempts(sf):
    sf.queue("mail", backoff=no_backoff())
    sf.handler("mail")(handler := Raises(Transient("down")))
    receipt = await sf.enqueue("mail", attempts=2)
    await drain(sf)
    assert handler.attempts == [1, 2]
    assert (await job_of(sf, receipt.id)).reason == "max_attempts"


async def test_a_possible_duplicate_is_written_before_the_repeat_starts(sf):
    read: list[list[bool]] = []

    async def handler(job):
        seen = await job_of(sf, job.id)
        read.append([line.possible_duplicate for line in seen.history])
        raise (Uncertain("cut off") if job.attempt == 1 else Transient("down"))

    await after(sf, handler, backoff=no_backoff(), attempts=3)
    assert read == [[], [True], [True, False]]


# --- manual handlers


@pytest.mark.parametrize("end", [Uncertain("cut off"), KeyError("x"), {"verified": False}, Kinded("timeout")])
async def test_a_manual_handler_that_may_have_acted_runs_once_only(sf, end):
    handler = Raises(end)
    job = await after(sf, handler, replay="manual", backoff=no_backoff())
    assert (job.state, job.reason, failure_of(job).landed) == ("dead", "unknown_commit_state", "maybe")
    sf.clock.advance("30d")
    await drain(sf)
    assert handler.attempts == [1]


async def test_a_manual_handler_that_did_not_act_still_runs_once_only(sf):
    handler = Raises(Transient("down"))
    job = await after(sf, handler, replay="manual", backoff=no_backoff())
    assert (job.state, job.reason, failure_of(job).landed) == ("dead", "dependency_unavailable", "no")
    assert handler.attempts == [1]


async def test_a_manual_handler_may_snooze(sf):
    handler = Raises(Snooze(5), None)
    job = await after(sf, handler, replay="manual")
    sf.clock.advance(5)
    await drain(sf)
    assert (await job_of(sf, job.id)).state == "completed"


# --- delays


@pytest.mark.parametrize(
    ("end", "delay"),
    [
        (Transient("busy", retry_after=77), 77),
        ({"error_kind": "rate_limited", "retry_after": 3}, 3),
        (Transient("busy", retry_after=9e9), 86400),
        (Transient("busy", retry_after=0), 0),
    ],
)
async def test_retry_after_replaces_the_backoff_exactly(sf, end, delay):
    job = await after(sf, Raises(end, None), backoff=fixed(1000))
    assert job.history[0].delay == delay


async def test_backoff_doubles_up_to_its_cap_and_jitter_only_shortens(sf):
    delays: list[list[float]] = []
    sf.queue("mail", attempts=6)
    sf.handler("mail")(Raises(Transient("down")))
    for _ in range(20):
        receipt = await sf.enqueue("mail")
        for _ in range(6):
            await drain(sf)
            sf.clock.advance(32)
        job = await job_of(sf, receipt.id)
        delays.append([line.delay or 0 for line in job.history[:-1]])
    for repeat, expected in enumerate((2, 4, 8, 16, 32)):
        waits = [each[repeat] for each in delays]
        assert all(expected * 0.9 <= wait <= expected for wait in waits)
        assert len(set(waits)) > 1, "no jitter: a thousand jobs would come back at once"


# --- ends that cannot be written


async def test_an_end_that_cannot_be_written_strands_neither_the_others_nor_the_drain(sf):
    """Its job stays with the worker, to lapse when that is gone; giving it back would run its effect again."""
    sf.queue("mail", lease=30, backoff=fixed(10))
    sf.handler("mail")(handler := Raises(None))
    receipts = await sf.enqueue_many("mail", ["a", "bad", "c"])
    refuse_the_end_of(sf, receipts[1].id)
    await drain(sf)
    jobs = [await job_of(sf, receipt.id) for receipt in receipts]
    assert [job.state for job in jobs] == ["completed", "running", "completed"]
    assert len(handler.attempts) == 3
    sweeper = Sweeper(store_of(sf), Sweep(every=1e9, patience=0))
    sf.clock.advance(31)
    await sweeper.sweep()
    job = await job_of(sf, receipts[1].id)
    assert (job.view, job.reason, job.history[0].possible_duplicate) == ("retry_pending", "worker_lost", True)
