"""The Reply: what an agent reads, in a few fixed words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from standfast.failure import Action, Class, Failure, Landed
from standfast.lifecycle import State
from standfast.views import Attempt, JobView, Triage
from standfast.wings.calls.refused_retries import not_replayed, still_down
from standfast.wings.calls.replies import (
    HINTS,
    LONGEST_RESULT,
    of_other_session,
    parked,
    reply,
    spooled,
    still_running,
)

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


MAYBE = Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code="unknown_commit_state", message="who knows")
CONSENT = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="consent_required", message="ask first")
UNCERTAIN = Attempt(attempt=1, at=NOW, landed="maybe")
TIMED_OUT = Attempt(attempt=1, at=NOW, landed="maybe", reason_code="timeout")
PENDING = Triage(action=Action.REQUIRE_APPROVAL, rule="r", replay_status="approval_pending", approval="a-1")
REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="consent_denied", message="ann said no")
FOUND = [
    {"name": "note", "verdict": "verified", "receipt": None},
    {"name": "page", "verdict": "absent", "receipt": None},
]
LONG = {"text": "x" * LONGEST_RESULT, "pages": 7}
QUEUED = {"queued_for_retry": False, "queue_reason": "event", "retry_at": "2026-01-01T00:00:00Z"}
RETRIED = {**QUEUED, "queued_for_retry": True, "queue_reason": "retry"}

VARIANTS: list[tuple[str, State, dict[str, Any], str, str, dict[str, Any]]] = [
    ("done", State.COMPLETED, {"result": 7}, "ok", "It is done; the result is here.", {"result": 7}),
    ("done, nothing returned", State.COMPLETED, {}, "ok", "It is done; the result is here.", {"result": None}),
    (
        "done, too long",
        State.COMPLETED,
        {"result": LONG},
        "ok",
        (
            "It is done. The result is too long for a reply and is cut here: fetch the whole with "
            "result(operation_id), or one key of it with result(operation_id, key)."
        ),
        {
            "result": {
                "_truncated": True,
                "text": json.dumps(LONG, separators=(",", ":"))[:LONGEST_RESULT],
                "keys": [*LONG],
            }
        },
    ),
    (
        "done, found after the fact",
        State.COMPLETED,
        {"warning": "post_write_recovery", "effects": FOUND},
        "ok",
        "It is done: its end was lost, but its effect was found (note). Nothing was run again, so there is no result.",
        {"result": None, "post_write_recovery": True, "effects_verified": ["note"], "warning": "post_write_recovery"},
    ),
    (
        "done, result not kept",
        State.COMPLETED,
        {"warning": "result_not_stored"},
        "ok",
        "It is done, but its result could not be kept. Do not call again; look at what it did.",
        {"result": None, "warning": "result_not_stored"},
    ),
    (
        "running",
        State.RUNNING,
        {},
        "running",
        HINTS["running"],
        {},
    ),
    (
        "queued",
        State.QUEUED,
        {},
        "queued",
        "It is not done yet: it waits in the queue. Look again with status, or wait for it.",
        QUEUED,
    ),
    (
        "queued for retry",
        State.QUEUED,
        {"attempts": 1, "failure": FAILURE, "view": "retry_pending", "queue_reason": "retry"},
        "queued",
        (
            "It is not done: an attempt failed, and it is tried again by itself, next at "
            "2026-01-01T00:00:00Z. Do not call again; wait for it, or look with status."
        ),
        {**RETRIED, "error": "no", "error_kind": "auth", "reason_code": "denied"},
    ),
    (
        "deferred",
        State.QUEUED,
        {"queue_reason": "deferred_submit"},
        "queued",
        (
            "It is not done yet: it was taken in, and a worker runs it once. Do not submit it again; "
            "wait for it, or look with status."
        ),
        {**QUEUED, "queue_reason": "deferred_submit"},
    ),
    (
        "scheduled",
        State.QUEUED,
        {"view": "scheduled"},
        "queued",
        "It is not done yet: it is due at 2026-01-01T00:00:00Z. Do not call again; look with status, or wait for it.",
        QUEUED,
    ),
    (
        "waiting",
        State.WAITING,
        {"view": "waiting"},
        "queued",
        "It is not done yet: it waits for earlier steps of its workflow. Look with status, or wait for it.",
        QUEUED,
    ),
    (
        "failed for good",
        State.DEAD,
        {"failure": FAILURE},
        "failed",
        "It failed permanently and had no effect. Read the error, and what explain says, before you retry it.",
        {"error": "no", "error_kind": "auth", "reason_code": "denied"},
    ),
    (
        "failed, and may be done",
        State.DEAD,
        {"failure": MAYBE},
        "failed",
        (
            "It failed permanently, and may have been done all the same. Find out whether it was done before you ask "
            "for a retry."
        ),
        {"error": "who knows", "reason_code": "unknown_commit_state"},
    ),
    (
        "failed, and an earlier attempt may have done it",
        State.DEAD,
        {"failure": FAILURE, "history": [UNCERTAIN]},
        "failed",
        (
            "It failed permanently, and may have been done all the same. Find out whether it was done before you ask "
            "for a retry."
        ),
        {"error": "no", "error_kind": "auth", "reason_code": "denied"},
    ),
    (
        "timed out",
        State.DEAD,
        {"failure": MAYBE, "history": [TIMED_OUT]},
        "timeout",
        (
            "Its time was up, or something that it called did not answer in time. It may have been done all the same, "
            "and is not repeated by itself. Find out whether it was done before you ask for a retry."
        ),
        {"error": "who knows", "reason_code": "unknown_commit_state"},
    ),
    (
        "held",
        State.HELD,
        {},
        "held",
        "It waits for a person's answer. Do not call again; look with explain.",
        {},
    ),
    (
        "held for approval",
        State.HELD,
        {"failure": FAILURE, "triage": PENDING},
        "held",
        "It waits for a person's approval, and goes on once that is given. Do not call again; look with status.",
        {"error": "no", "error_kind": "auth", "reason_code": "approval_required", "approval": "a-1"},
    ),
    (
        "held for a check",
        State.HELD,
        {"failure": MAYBE},
        "held",
        (
            "It may have been done or not: the check could not tell. Do not call again; a person finds "
            "out, and explain says at what to look."
        ),
        {"error": "who knows", "reason_code": "unknown_commit_state"},
    ),
    (
        "held for consent",
        State.HELD,
        {"failure": CONSENT},
        "held",
        (
            "It was not begun: it waits until a person who may approve consents, in the dashboard or at the command "
            "line, and goes on by itself then. Do not call again; look with status."
        ),
        {"error": "ask first", "reason_code": "consent_required"},
    ),
    (
        "cancelled",
        State.CANCELLED,
        {},
        "cancelled",
        "It was cancelled and will not run. Call it again if it is wanted after all.",
        {},
    ),
    (
        "cancelled, called with a key",
        State.CANCELLED,
        {"idempotency_key": "k"},
        "cancelled",
        "It was cancelled and will not run. If it is wanted after all, call it again with another idempotency_key.",
        {},
    ),
    (
        "refused by a person",
        State.DEAD,
        {"failure": REFUSED},
        "failed",
        "A person refused it, and it will not run. Do not call it again or ask for a retry, unless a person says so.",
        {"error": "ann said no", "reason_code": "consent_denied"},
    ),
    (
        "refused by a person after an attempt that may have done it",
        State.DEAD,
        {"failure": REFUSED, "history": [UNCERTAIN]},
        "failed",
        (
            "An earlier attempt may have done it. A person refused it, and it will not run. Do not call it again or "
            "ask for a retry, unless a person says so."
        ),
        {"error": "ann said no", "reason_code": "consent_denied"},
    ),
    (
        "superseded",
        State.CANCELLED,
        {"superseded_by": "job-8"},
        "cancelled",
        "It will not run: job job-8, a newer one of the same thread, took its place. Look at that one.",
        {},
    ),
]


@pytest.mark.parametrize(
    ("state", "known", "status", "hint", "more"), [each[1:] for each in VARIANTS], ids=[each[0] for each in VARIANTS]
)
def test_every_variant_says_what_is_so_and_what_to_do_next(state, known, status, hint, more):
    said = reply(job(state, **known))
    assert said == {"operation_id": "job-7", "status": status, "hint": hint, **more}
    assert json.loads(json.dumps(said)) == said


def test_no_state_is_without_a_variant():
    assert {state for _, state, *_ in VARIANTS} == set(State)
    assert {status for _, _, _, status, *_ in VARIANTS} == set(HINTS)


@pytest.mark.parametrize(
    ("said", "status", "hint"),
    [
        (
            parked(job(State.QUEUED), "Queue mail is paused."),
            "queued",
            (
                "It was not started: Queue mail is paused. It goes on by itself then; look again with "
                "status, or wait for it."
            ),
        ),
        (
            still_running(job(State.RUNNING)),
            "running",
            (
                "It is not done yet: it is still being run, and goes on without you. Do not call again; "
                "wait for it, or look with status."
            ),
        ),
        (
            still_running(job(State.RUNNING, reason="lease_lapsed")),
            "running",
            (
                "It is not known to be done, and no worker runs it: its worker has been silent for longer than its "
                "lease. A live worker takes it up by itself, and repeats it, checks it or leaves it to a person, as "
                "its handler says. Do not call again; see with health that a worker is there, then wait for it."
            ),
        ),
        (
            of_other_session(job(State.COMPLETED, result="secret")),
            "ok",
            (
                "Another session's call has this key, so it was not called again: that one is done. What came of it is "
                "told that session alone. If it should be done for you too, call with a key of your own."
            ),
        ),
        (
            spooled(job(State.QUEUED)),
            "queued",
            (
                "It is not done yet: the store is away, and it is kept on this host and brought there by "
                "itself. Do not call again; look with status."
            ),
        ),
        (
            still_down(job(State.QUEUED), "HTTP 503"),
            "queued",
            (
                "It was not retried: the probe still says no (HTTP 503), and the job was left as it is. "
                "Bring the dependency back and ask again, or retry without the probe."
            ),
        ),
        (
            not_replayed(job(State.DEAD, failure=FAILURE), {"outcome": "denied", "rule": "r", "why": "never"}),
            "failed",
            "It was not retried: the policy denies it (r: never). Do not ask again; tell a person.",
        ),
        (
            not_replayed(
                job(State.DEAD, failure=FAILURE), {"outcome": "approval_required", "rule": "r", "approval": "a"}
            ),
            "held",
            "It was not retried: a person must approve it first (r). Do not ask again.",
        ),
    ],
    ids=["parked", "goes on", "no worker runs it", "another's", "spooled", "still down", "denied", "approval required"],
)
def test_what_only_the_caller_knows_is_said_too(said, status, hint):
    assert (said["status"], said["hint"]) == (status, hint)


@pytest.mark.parametrize("state", sorted(set(State) - {State.COMPLETED}))
def test_nothing_but_done_reads_like_success(state):
    said = reply(job(state, result="sent"))
    assert said["status"] != "ok"
    assert "result" not in said
    assert "is done" not in said["hint"]


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
