"""The Reply: what an agent reads, in a few fixed words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from standfast.failure import Class, Failure, Landed
from standfast.job import Attempt, JobView
from standfast.lifecycle import State
from standfast.queue.replies import HINTS, LONGEST_RESULT, MAYBE_DONE, STATUS, reply

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KNOWN: dict[str, Any] = {
    **dict.fromkeys(JobView.__struct_fields__),
    **dict.fromkeys(("queue", "handler"), "mail"),
    **dict.fromkeys(("priority", "attempts", "max_attempts", "deferrals", "generation", "replays"), 0),
    **dict.fromkeys(("created_at", "first_seen_at", "last_entered_at", "due_at"), NOW),
    "id": "job-7",
    "view": "queued",
    "queue_reason": "event",
    "payload": {},
    "payload_sha256": "",
    "labels": {},
    "history": [],
    "effects": [],
}
FAILURE = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="denied", error_kind="auth", message="no")


def job(state: State, **known: Any) -> JobView:
    given: dict[str, Any] = {**KNOWN, "state": state, **known}
    return JobView(**given)


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_status_and_hint(state):
    said = reply(job(state))
    assert said["operation_id"] == "job-7"
    assert said["status"] == STATUS[state]
    assert said["hint"] == HINTS[said["status"]]
    assert said["hint"].endswith(".")


@pytest.mark.parametrize("state", sorted(set(State) - {State.COMPLETED}))
def test_nothing_but_done_reads_like_success(state):
    said = reply(job(state, result="sent"))
    assert said["status"] != "ok"
    assert "result" not in said
    assert "is done" not in said["hint"]


MAYBE = Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code="unknown_commit_state")
UNCERTAIN = Attempt(attempt=1, at=NOW, landed="maybe")


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        ({"failure": FAILURE}, HINTS["failed"]),
        ({"failure": MAYBE}, MAYBE_DONE),
        ({"failure": FAILURE, "history": [UNCERTAIN]}, MAYBE_DONE),
    ],
)
def test_what_failed_was_not_done_only_if_that_is_certain(known, hint):
    assert reply(job(State.DEAD, **known))["hint"] == hint


def test_a_queued_job_says_why_and_when():
    said = reply(job(State.QUEUED, attempts=1, failure=FAILURE))
    assert (said["queue_reason"], said["queued_for_retry"]) == ("event", True)
    assert said["retry_at"] == NOW.isoformat().replace("+00:00", "Z")
    assert json.loads(json.dumps(said)) == said
    assert (said["error"], said["reason_code"], said["error_kind"]) == ("no", "denied", "auth")
    assert reply(job(State.QUEUED))["queued_for_retry"] is False


def test_a_result_comes_whole_up_to_a_length():
    most = "x" * (LONGEST_RESULT - 2)
    assert reply(job(State.COMPLETED, result=most))["result"] == most
    cut = reply(job(State.COMPLETED, result=most + "x"))["result"]
    assert cut == {"_truncated": True, "text": msgspec.json.encode(most + "x").decode()[:LONGEST_RESULT]}


def test_a_warning_and_a_hint_of_ones_own_are_told():
    said = reply(job(State.COMPLETED, warning="result_not_stored"), hint="Look at the receiver.")
    assert (said["warning"], said["hint"], said["result"]) == ("result_not_stored", "Look at the receiver.", None)
