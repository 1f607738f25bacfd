"""What a record of another queue becomes here, decided from the record alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import ConfigurationError
from standfast.clock import SystemClock
from standfast.errors import StandfastError
from standfast.failure import Landed
from standfast.spine.accept import Acceptor
from standfast.spine.registry import Registry
from standfast.wings.imports import incoming, known_shapes, rules
from standfast.wings.imports.field_map import field_map, values_of
from standfast.wings.imports.jsonl_reader import read_line
from standfast.wings.imports.known_shapes import STATES, Profile
from standfast.wings.imports.record_ids import Identities
from standfast.wings.imports.rules import Plan
from standfast.wings.imports.words import BadRecord, Meaning, Record, Source, Unreadable

IMPORTED = 1_800_000_000.0
EVENT: dict[str, Any] = {"id": "e1", "queue_name": "feedback", "payload": '{"n": 1}', "created_at": 1_700_000_000.5}
OP: dict[str, Any] = {"operation_id": "op_1", "capability": "task_create", "params": {"title": "x"}}
LETTER: dict[str, Any] = {
    "job_id": "job_74c2",
    "topic": "tool.github.pr.create",
    "status": "FAILED",
    "reason_code": "max_scheduling_retries",
    "reason": "max scheduling retries exceeded (attempts=50)",
    "attempts": 50,
    "idempotency_key": "run_2f91:step_3",
    "policy_snapshot": "sha256:ab91...",
    "replay_status": "pending_review",
}
EVENTS = known_shapes.of_table("queued_events")


def planned(profile: Profile, record: dict[str, Any], **given: str) -> Plan:
    """Plan one record by the map of its profile."""
    fields = field_map(profile.defaults_for(record, given), given)
    return rules.plan(values_of(fields, record), record, profile, {}, imported_at=IMPORTED)


@pytest.mark.parametrize(
    ("state", "attempts", "meaning", "landed"),
    [
        ("pending", 0, Meaning.QUEUED, None),
        ("pending", 2, Meaning.QUEUED, Landed.MAYBE),
        ("processing", 0, Meaning.IN_DOUBT, Landed.MAYBE),
        ("PROCESSING", 3, Meaning.IN_DOUBT, Landed.MAYBE),
        ("dead_letter", 5, Meaning.DEAD, Landed.MAYBE),
        ("dead_letter", 0, Meaning.DEAD, Landed.NO),
        ("completed", 1, Meaning.FINISHED, None),
    ],
)
def test_a_state_says_whether_a_record_may_run_and_whether_its_effect_may_exist(state, attempts, meaning, landed):
    plan = planned(EVENTS, {**EVENT, "status": state, "attempts": attempts})
    assert (plan.meaning, plan.landed) == (meaning, landed)


def test_no_word_of_the_old_store_makes_what_was_being_worked_on_safe():
    plan = planned(EVENTS, {**EVENT, "status": "claimed", "landed": "no", "reason_code": "no_workers"}, landed="landed")
    assert plan.failure is not None
    assert (plan.landed, plan.failure.landed, plan.failure.reason_code, plan.failure.cause) == (
        *(Landed.MAYBE, Landed.MAYBE),
        *("unknown_commit_state", "no_workers"),
    )


def test_an_event_keeps_its_age_its_key_its_budget_and_when_it_is_due():
    more = {"next_retry_at": 1_800_000_000, "max_attempts": 7, "idempotency_key": "k", "status": "pending"}
    plan = planned(EVENTS, {**EVENT, **more})
    assert (plan.queue, plan.payload) == ("feedback", {"n": 1})
    assert plan.options == {
        "idempotency_key": "k",
        "first_seen_at": 1_700_000_000.5,
        "attempts": 7,
        "at": 1_800_000_000,
    }


@pytest.mark.parametrize(("count", "meaning"), [(1, Meaning.QUEUED), (3, Meaning.DEAD)])
def test_an_event_of_a_trigger_is_retried_while_retries_are_left(count, meaning):
    row = {"id": 7, "trigger": "mention", "source": "github", "thread_key": "github:o/r#1", "priority": 50}
    row |= {"state": "failed", "retry_count": count, "max_retries": 3, "payload": None}
    plan = planned(known_shapes.of_table("events"), row)
    assert (plan.meaning, plan.queue, plan.attempts) == (meaning, "events", count)
    assert plan.options["thread_key"] == "github:o/r#1"
    assert plan.options["labels"] == {"trigger": "mention", "source": "github"}
    assert plan.payload == row


@pytest.mark.parametrize(
    ("said", "meaning", "attempts"),
    [
        ({"queued": True, "queue_reason": "retry", "status": "failed"}, Meaning.QUEUED, 1),
        ({"queued_for_retry": True, "status": "failed"}, Meaning.QUEUED, 1),
        ({"queued": True, "queue_reason": "deferred_submit", "status": "failed", "max_retries": 1}, Meaning.QUEUED, 0),
        ({"queued": True, "queue_reason": "retry", "locked_until": 5.0}, Meaning.IN_DOUBT, 1),
        ({"queued": False, "status": "failed", "attempts": 5}, Meaning.DEAD, 5),
        ({"status": "timeout"}, Meaning.IN_DOUBT, 1),
        ({"status": "running"}, Meaning.IN_DOUBT, 1),
        ({"status": "completed"}, Meaning.FINISHED, 0),
    ],
)
def test_an_op_record_says_by_several_fields_where_it_stands(said, meaning, attempts):
    plan = planned(known_shapes.OPS, {**OP, **said})
    assert (plan.meaning, plan.attempts, plan.queue, plan.payload) == (meaning, attempts, "task_create", {"title": "x"})


def test_an_op_record_keeps_its_session_its_lease_and_its_history():
    history = [
        {"attempt": 1, "timestamp": "2026-05-01T10:00:00Z", "error": "bridge away", "error_kind": "obsidian_timeout"},
        {"attempt": 2, "timestamp": 1_777_629_610, "error": "again"},
    ]
    told = {"queued": True, "queue_reason": "retry", "originating_session_id": "s1", "lease_seconds": 600}
    plan = planned(known_shapes.OPS, {**OP, **told, "retry_history": history})
    assert (plan.options["session"], plan.options["lease"], plan.queue_reason) == ("s1", 600, "retry")
    lines = [(line.attempt, line.at.isoformat(), line.error_kind, line.message) for line in plan.history]
    assert lines == [
        (1, "2026-05-01T10:00:00+00:00", "obsidian_timeout", "bridge away"),
        (2, "2026-05-01T10:00:10+00:00", None, "again"),
    ]


def test_a_letter_of_redis_is_dead_for_its_own_reason():
    plan = planned(known_shapes.LETTERS, LETTER)
    assert plan.failure is not None
    assert (plan.meaning, plan.queue, plan.attempts) == (Meaning.DEAD, "tool.github.pr.create", 50)
    assert (plan.failure.reason_code, plan.failure.message) == ("max_attempts", LETTER["reason"])
    assert plan.options["idempotency_key"] == "run_2f91:step_3"


def test_a_letter_without_a_status_is_dead():
    assert planned(known_shapes.LETTERS, {"job_id": "j", "topic": "t"}).meaning is Meaning.DEAD


def test_a_line_without_a_payload_is_the_payload_and_its_fields_are_data():
    line = {"queue": "clicks", "status": 200, "priority": "high", "ts": 1_700_000_000}
    plan = planned(known_shapes.JSONL, line)
    assert (plan.meaning, plan.payload) == (Meaning.QUEUED, line)
    assert plan.options == {"first_seen_at": 1_700_000_000}


def test_a_map_goes_before_the_defaults():
    given = {"queue": "meta.to", "payload": "json:meta.body", "labels.team": "meta.owner", "handler": "=send"}
    plan = planned(known_shapes.JSONL, {"meta": {"to": "mail", "body": '{"a": 1}', "owner": "ops"}}, **given)
    assert (plan.queue, plan.payload) == ("mail", {"a": 1})
    assert plan.options == {"handler": "send", "labels": {"team": "ops"}}


def test_an_empty_path_takes_a_field_away():
    assert planned(EVENTS, {**EVENT, "status": "who knows"}, state="").meaning is Meaning.QUEUED


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"queue": 7.5, "queue_name": None, "payload": "not json"}, "is not JSON"),
        ({"status": "odd"}, "its state 'odd' is unknown; say what it means with --state odd=queued"),
        ({"attempts": "many"}, "its attempts is 'many' and not a whole number"),
        ({"attempts": 1.5}, "not a whole number"),
        ({"attempts": 10**12}, "of a sensible size"),
        ({"created_at": "yesterday"}, "its first_seen_at is 'yesterday', which is not a time"),
        ({"created_at": True}, "not a time"),
        ({"created_at": float("nan")}, "not a time"),
        ({"created_at": 1e30}, "not a time"),
        ({"idempotency_key": {"a": 1}}, "and not text"),
        ({"labels": "[1]"}, "not names with values"),
    ],
)
def test_a_record_that_makes_no_sense_is_named_for_what_is_wrong(wrong, why):
    with pytest.raises(Unreadable, match=why.replace("[", r"\[")):
        planned(EVENTS, {**EVENT, **wrong})


def test_a_record_without_a_queue_says_how_to_name_one():
    with pytest.raises(Unreadable, match="--queue NAME"):
        planned(known_shapes.JSONL, {"payload": 1})


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        ("1700000000.5", 1_700_000_000.5),
        (1_700_000_000_123, 1_700_000_000.123),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14 22:13:20", 1_700_000_000.0),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000.0),
        ("", None),
    ],
)
def test_times_are_read_in_the_ways_that_queues_write_them(given, seconds):
    assert rules.moment("created_at", given) == seconds


def test_a_slip_in_the_name_of_a_field_or_a_meaning_is_answered_with_the_nearest():
    with pytest.raises(ConfigurationError, match="did you mean 'payload'"):
        field_map({}, {"paylod": "x"})
    with pytest.raises(ConfigurationError, match="did you mean 'queued'"):
        rules.meanings({"odd": "queud"})
    with pytest.raises(ConfigurationError, match="is not a path"):
        field_map({}, {"payload": "a..b"})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from([*STATES]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted({*known_shapes.JSONL.fields, "retry_history", "queued", "params", "status", "capability", "last_error"})
PROFILES = [known_shapes.JSONL, known_shapes.OPS, known_shapes.LETTERS, EVENTS]


@given(record=st.dictionaries(st.sampled_from(NAMES), ANYTHING), profile=st.sampled_from(PROFILES))
def test_whatever_a_record_holds_it_becomes_something_that_can_be_stored_or_is_rejected_in_words(record, profile):
    """One bad record must never end the import of all others."""
    read = read_line(1, "line 1", json.dumps({"queue": "mail", **record}).encode())
    if isinstance(read, BadRecord):
        assert read.why
        return
    try:
        plan = planned(profile, read.value)
        job = incoming.new_job(Acceptor(Registry(), SystemClock()), plan, ids(read, read.value.get("id")))
    except StandfastError:
        return
    actor = {"by": "ann", "reason": "test"}
    stored = [incoming.runnable(plan, job, 0.0), incoming.finished(plan, job)]
    letters = [] if plan.failure is None else [incoming.letter(plan, job, actor, now=2e9, skew=0.0)]
    written = msgspec.json.encode([stored, letters])
    assert b"\\u0000" not in written


def ids(record: Record, own: object, *, name: str = "/a/queue.jsonl", named: str | None = None) -> str:
    """Give the id that a record of a file gets."""
    source = Source(kind="jsonl", name=name, shown=name, read=lambda: iter(()), count=lambda: None, rejects="")
    return Identities(source, named).job_id(record, own)


RECORD = Record(1, "line 1", {}, "{}", content="{}")


def test_text_ids_are_the_same_wherever_the_file_lies_and_numbers_belong_to_their_file():
    assert ids(RECORD, "evt-1") == ids(RECORD, "evt-1", name="/b/queue.jsonl")
    assert ids(RECORD, "evt-1") != ids(RECORD, "evt-2")
    assert ids(RECORD, 1) != ids(RECORD, 1, name="/b/queue.jsonl")
    assert ids(RECORD, 1) == ids(RECORD, "1")
    assert ids(RECORD, "evt-1") != ids(RECORD, "evt-1", named="again")
    assert ids(RECORD, 1, named="one") == ids(RECORD, 1, named="one", name="/b/queue.jsonl")


def test_equal_lines_without_an_id_are_different_jobs_and_the_same_ones_in_a_second_run():
    source = Source(kind="jsonl", name="/a", shown="a", read=lambda: iter(()), count=lambda: None, rejects="")
    first, second = Identities(source), Identities(source)
    made = [first.job_id(RECORD, None) for _ in range(3)]
    assert len(set(made)) == 3
    assert made == [second.job_id(RECORD, None) for _ in range(3)]


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({}, IMPORTED),
        ({"created_at": 0, "dead_at": ""}, IMPORTED),
        ({"created_at": 1_700_000_000}, 1_700_000_000),
        ({"created_at": 1_700_000_000, "dead_at": 1_700_000_600}, 1_700_000_600),
    ],
)
@pytest.mark.parametrize("history", [None, [{"error": "boom"}], [{"error": "boom", "timestamp": None}]])
def test_an_attempt_without_a_time_gets_the_best_one_that_is_known(times, at, history):
    record = {"id": "e1", "queue": "mail", "payload": {}, "status": "dead", "attempts": 1, "error": "boom", **times}
    [line] = planned(known_shapes.JSONL, record if history is None else {**record, "history": history}).history
    assert (line.at.timestamp(), line.message) == (at, "boom")
