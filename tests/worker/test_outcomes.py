"""How an attempt ends, and what becomes of its job. The clock stands still, so every delay is exact."""

from __future__ import annotations

import asyncio
import json
import math
import os
from dataclasses import dataclass
from typing import Any

import pytest

from standfast import Cancel, JobView, Permanent, Snooze, Transient, Uncertain, fixed, no_backoff
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest
from tests.store.suite import claim_one
from tests.waiting import failure_of, job_of, seen
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


def said(message: str | None) -> str:
    """Give what an exception said, without the place where it was raised."""
    told, _, place = (message or "").rpartition(" (at test_outcomes.py:")
    assert place.endswith(" in __call__)")
    return told


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


class Lazy:
    """A model that fails in its own way when it is written out."""

    def model_dump(self, mode: str, *, by_alias: bool) -> Any:  # noqa: ARG002 - as pydantic has it
        raise Kinded(mode)


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
        Lazy(),
    ],
    ids=["object", "key", "nan", "nul", "surrogate", "integer", "size", "field", "raises"],
)
async def test_a_result_that_cannot_be_kept_never_fails_a_finished_attempt(sf, result):
    handler = Raises(result)
    job = await after(sf, handler)
    assert (job.state, job.result, job.warning) == ("completed", None, "result_not_stored")
    assert handler.attempts == [1]


async def send() -> None:
    """Do what a handler should have waited for."""


def sends() -> Any:
    yield 1


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("unfinished", "told"),
    [
        (sends, "generator sends"),
        (lambda: [send(), send()], "coroutine send"),
        (lambda: {"sent": send()}, "coroutine send"),
    ],
)
async def test_work_that_nobody_waited_for_is_no_success(sf, plain, unfinished, told):
    async def handler(_job: Any) -> Any:
        return unfinished()

    job = await after(sf, (lambda _job: unfinished()) if plain else handler, soft=False)
    assert (job.state, job.reason, job.attempts) == ("dead", "forgotten_await", 1)
    failure = failure_of(job)
    assert (failure.cls, failure.landed) == ("permanent", "maybe")
    assert failure.message == f"the handler returned {told}, which was never run or awaited: is an `await` missing?"


@pytest.mark.parametrize(
    ("unfinished", "kind"), [(send, "coroutine"), (lambda: asyncio.get_running_loop().create_future(), "Future")]
)
async def test_a_forgotten_await_is_no_success(sf, unfinished, kind):
    """A plain function may give a coroutine, which is awaited; an async one that does has forgotten it."""

    async def handler(_job: Any) -> Any:
        return unfinished()

    job = await after(sf, handler)
    assert (job.state, job.reason, failure_of(job).error_kind) == ("dead", "forgotten_await", kind)


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


async def test_snooze_may_be_as_long_as_asked(sf):
    """Only what a receiver asks for, by Retry-After, ends at a day."""
    week = 7 * 86400
    job = await after(sf, Raises(Snooze(week)))
    assert job.due_at.timestamp() == sf.clock.wall() + week


async def test_cancel_is_final_and_says_why(sf):
    job = await after(sf, Raises(Cancel("the user left")))
    assert (job.state, job.warning, job.failure) == ("cancelled", "the user left", None)


async def test_a_cancel_whose_reason_no_store_takes_still_ends(sf):
    job = await after(sf, Raises(Cancel("gone \ud800")))
    assert (job.state, job.warning) == ("cancelled", "gone \ufffd")


@pytest.mark.parametrize(
    ("word", "given"),
    [(Snooze, "5m"), (Snooze, None), (Snooze, math.nan), (Snooze, math.inf), (Snooze, 1e11), (Cancel, 404)],
)
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
    assert (line.cls, line.landed, line.reason_code, line.error_kind, said(line.message)) == expected
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
    assert (failure_of(job).cls, failure_of(job).landed, said(failure_of(job).message)) == ("transient", "no", "third")
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
    assert said(job.first_failure.message) == "first"


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


@pytest.mark.long_on_postgres
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
    sweeper = Sweeper(store_of(sf), SweepRequest(every=1e9, patience=0))
    sf.clock.advance(31)
    await sweeper.sweep()
    job = await job_of(sf, receipts[1].id)
    assert (job.view, job.reason, job.history[0].possible_duplicate) == ("retry_pending", "worker_lost", True)


async def test_health_names_a_job_whose_end_cannot_be_written(sf):
    """It is running for as long as its worker lives, and nothing else would tell."""
    sf.queue("mail", lease=1)
    sf.handler("mail")(Raises(None))
    receipt = await sf.enqueue("mail", "bad")
    refuse_the_end_of(sf, receipt.id)
    async with sf.worker():
        issue = "mail/mail: the end of a job cannot be written, and it counts as running; a worker's log says why"
        await seen(lambda: _issues(sf, issue))


async def _issues(sf: Any, issue: str) -> bool:
    return issue in (await sf.health())["issues"]


# --- what is told of a failure


def refuse(account: str) -> None:
    raise ValueError(f"no account {account}")


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_a_failure_says_where_in_the_applications_code_it_arose(sf, plain):
    def handler(_job: Any) -> None:
        json.loads("[") if plain else refuse("a")

    async def handler_async(job: Any) -> None:
        handler(job)

    job = await after(sf, handler if plain else handler_async)
    source, name = (handler, "handler") if plain else (refuse, "refuse")
    line = source.__code__.co_firstlineno + 1
    assert failure_of(job).message.endswith(f" (at test_outcomes.py:{line} in {name})")
    assert job.history[0].message == failure_of(job).message


async def test_the_log_writes_a_long_wait_as_pages_do_and_never_in_powers_of_ten(sf, caplog):
    await after(sf, Raises(Transient("busy", retry_after=5400)), attempts=3)
    [retried] = [record for record in caplog.records if record.name == "standfast.worker"]
    assert retried.message.endswith("; it is tried again in 1 h 30 min")


async def test_the_log_says_how_each_attempt_failed_and_what_follows(sf, caplog):
    job = await after(
        sf, Raises(Transient("busy, token=hunter2"), Permanent("no such account")), backoff=no_backoff(), attempts=3
    )
    retried, died = [record for record in caplog.records if record.name == "standfast.worker"]
    about = f"job {job.id} of queue mail, handler mail, attempt"
    assert retried.levelname == "WARNING"
    assert retried.message.startswith(f"{about} 1 of 3: dependency_unavailable: busy, token=*** (at test_outcomes.py:")
    assert retried.message.endswith("; it is tried again in 0 s")
    assert "hunter2" in str(job.history[0].message), "a job is its owner's, and is not changed by what is told of it"
    assert died.levelname == "ERROR"
    assert died.message.startswith(f"{about} 2 of 3: handler_refused: no such account (at ")
    assert died.message.endswith("; it is dead (handler_refused): " + failure_of(job).advice)


async def test_the_log_tells_of_a_job_whose_worker_was_lost(sf, caplog):
    sf.queue("mail", lease=5, backoff=no_backoff())
    receipt = await sf.enqueue("mail")
    await claim_one(store_of(sf))
    sf.clock.advance(60)
    sweeper = Sweeper(store_of(sf), SweepRequest(every=1e9, patience=0.0))
    await sweeper.sweep()
    assert f"job {receipt.id} of queue mail, handler mail, attempt 1 of 5: worker_lost: " in caplog.text
