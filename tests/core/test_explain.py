"""One sentence for every state a job can be in, with the evidence."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from standfast.failure import CATALOGUE, Class, Failure, Landed, reason
from standfast.lifecycle import State
from standfast.wings.jobs.explain import Circumstances, explain
from standfast.wings.jobs.verbs import _before
from standfast.wings.limits.words import Row
from standfast.wings.records.reads import JobRow


def failure(landed: Landed = Landed.NO, message: str = "no answer") -> Failure:
    advice = "Bring it back, then replay."
    return Failure(cls=Class.TRANSIENT, landed=landed, reason_code="timeout", message=message, advice=advice)


def told(state: State, **facts: Any) -> str:
    known = {"queue": "mail", "handler": "send", "attempts": 0, "max_attempts": 5, "due_in": 0.0, "waited": 30.0}
    return explain(Circumstances(state=state, **{**known, "age": 90.0, "live_workers": 1, **facts}))


def test_a_parked_job_names_what_it_waits_behind():
    said = told(State.QUEUED, parked_on="thread:mail:pr-1", paused=True, live_workers=0)
    assert said == "It has waited behind thread:mail:pr-1 for 30 s."


def test_the_gates_before_a_job_are_always_in_one_order_and_each_is_there_once():
    """The one it is parked at stands before that of its receiver, whatever the hashes of their names are."""
    unset: dict[str, Any] = dict.fromkeys(JobRow._fields)
    row = JobRow(**unset)._replace(queue="mail", handler="http", payload='{"url": "http://crm/"}')
    *whole, receiver = _before(row)
    assert whole == ["gate:mail", "limit:mail", "rate:mail"]
    for parked_on in [f"thread:mail:{n}" for n in range(20)]:
        assert _before(row._replace(parked_on=parked_on)) == [*whole, parked_on, receiver]
    assert _before(row._replace(parked_on=receiver)) == [*whole, receiver]


CRM = "breaker:http://crm:80"
AWAY = "It waits for http://crm:80, which failed 3 times in a row: its breaker has been open for 30 s"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row("limit:mail:a", "limit", None, 2, 2), "It waits for a place of limit:mail:a: 2 of 2 are taken."),
        (
            Row("rate:mail:a", "rate", detail='{"until":100.4,"each":0.2,"burst":1}'),
            "It waits for rate:mail:a, which lets the next one start in 200 ms.",
        ),
        (
            Row("gate:mail", "gate", detail='{"since":40,"why":"it says no"}'),
            "Its queue's gate has been closed for 1 min: it says no. It is asked again by itself.",
        ),
        (
            Row("probe:mail:send:mail", "probe", None, None, 0, 200.0, '{"since":40,"why":"HTTP 503"}'),
            (
                "Its handler 'send:mail' has been disabled for 1 min: what it requires says no (HTTP 503). That is "
                "asked again by itself, and no attempt is spent; `retry` calls it all the same."
            ),
        ),
        (
            Row(CRM, "breaker", None, None, 3, 112.0, '{"state":"open","since":70}'),
            f"{AWAY}, and the next try is in 12 s. No attempt is spent.",
        ),
        (
            Row(CRM, "breaker", 7, None, 3, 160.0, '{"state":"probing","since":70}'),
            f"{AWAY}, and one job is on its way to see whether it is back. No attempt is spent.",
        ),
        (
            Row(CRM, "breaker", None, None, 0, 101.0, '{"state":"recovering","since":99}'),
            "It waits for its turn: http://crm:80 answers again, and jobs follow little by little.",
        ),
    ],
)
def test_a_job_that_a_gate_holds_back_says_what_it_waits_for(row, said):
    assert told(State.QUEUED, parked_on=row.key, gates=(row,), now=100.0) == said
    assert told(State.QUEUED, parked_on=row.key, gates=(row,), now=100.0, deferrals=2) == (
        f"{said} It was deferred 2 times so far."
    )


def test_a_due_job_names_the_gate_of_its_queue_that_is_shut():
    full, free = Row("limit:mail", "limit", None, 2, 2), Row("limit:mail", "limit", None, 2, 1)
    assert told(State.QUEUED, gates=(full,)) == "It waits for a place of limit:mail: 2 of 2 are taken."
    assert told(State.QUEUED, gates=(free,)).startswith("It has been due for")
    closed = Row("gate:mail", "gate", detail='{"since":40,"why":"it says no"}')
    assert told(State.QUEUED, gates=(closed,), now=100.0).startswith("Its queue's gate has been closed")


def test_a_scheduled_job_says_when_it_is_due():
    assert told(State.QUEUED, due_in=7200.0) == "It is scheduled, and due in 2 h."


def test_a_job_whose_process_cannot_start_says_so():
    said = told(State.QUEUED, due_in=30.0, not_started="no memory", deferrals=7, attempts=1, failure=failure())
    assert said == (
        "No process could be started for it (no memory); the next try is in 30 s, and no attempt is spent. "
        "It was deferred 7 times so far."
    )


def test_a_repeat_names_the_failure_it_follows():
    said = told(State.QUEUED, due_in=10.0, attempts=2, failure=failure())
    assert said == "Attempt 2 of 5 failed (timeout); the next one is due in 10 s."


def test_a_paused_queue_is_named_with_the_way_out():
    said = told(State.QUEUED, paused=True, live_workers=0)
    assert said == "Queue mail is paused; resume it with `standfast queue resume mail`."


def test_a_handler_nobody_declared_is_named():
    said = told(State.QUEUED, handler_known=False, live_workers=0)
    assert said == "No process has declared a handler 'send' for queue mail; deploy it, or correct the name."


def test_a_queue_nobody_serves_is_named():
    assert told(State.QUEUED, live_workers=0).startswith("No live worker serves queue mail; start one with ")


def test_a_job_that_is_only_behind_others_says_how_many():
    said = told(State.QUEUED, ahead=12, running=4, live_workers=2)
    assert said == "It has been due for 30 s; 12 jobs of queue mail are due, 4 are running on 2 workers."


def test_one_is_told_as_one():
    said = told(State.QUEUED, ahead=1, running=1)
    assert said == "It has been due for 30 s; 1 job of queue mail is due, 1 is running on 1 worker."
    assert " after 1 attempt: " in told(State.DEAD, attempts=1, failure=failure())


def test_an_unknown_outcome_is_said_once_and_only_what_can_be_done_is_advised():
    unknown = msgspec.structs.replace(failure(Landed.MAYBE), advice=reason("unknown_commit_state").advice)
    assert told(State.DEAD, failure=unknown).count("effect may exist") == 1
    assert [code for code, it in CATALOGUE.items() if re.search(r"resolve|amend|\brate", it.advice)] == []


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("KeyError", "'x'", "timeout (KeyError: 'x')."),
        ("KeyError", "", "timeout (KeyError)."),
        (None, "", "timeout."),
        ("http_500", "HTTP 500: sorry", "timeout (HTTP 500: sorry)."),
    ],
)
def test_an_error_is_told_with_its_type(kind, message, words):
    said = msgspec.structs.replace(failure(message=message), error_kind=kind)
    assert words in told(State.DEAD, failure=said)


def test_a_running_job_says_where_and_for_how_long():
    said = told(State.RUNNING, attempts=2, worker="host-1")
    assert said == "It has been running for 1 min 30 s on host-1, attempt 2 of 5."


def test_a_running_job_says_that_its_time_is_over_and_that_no_repeat_starts():
    said = told(State.RUNNING, attempts=1, worker="host-1", overdue_for=5.0)
    assert said == (
        "It has been running for 1 min 30 s on host-1, attempt 1 of 5. Its time has been over for at least 5 s; no "
        "repeat starts beside it."
    )


@pytest.mark.parametrize("state", [State.RUNNING, State.QUEUED])
def test_a_job_beside_one_that_blocks_its_worker_names_that_one(state):
    said = told(state, worker="host-1", blocked_by=("slow/sleeper",))
    assert said.endswith(" The event loop of a worker was blocked just now by slow/sleeper.")


def test_a_running_job_of_a_silent_worker_says_since_when_and_what_follows():
    facts = {"attempts": 2, "worker": "host-1", "silent_for": 47.0}
    said = told(State.RUNNING, **facts, lapses_in=43.0)
    assert said == (
        "Attempt 2 of 5 began 1 min 30 s ago on host-1, which has been silent for 47 s and may be gone. "
        "Its lease ends in 43 s; after that any live worker takes the job back."
    )
    assert told(State.RUNNING, **facts, any_worker=False).endswith(
        "Its lease is over; after that any live worker takes the job back, and none is alive: "
        "start one with `standfast worker app:sf`."
    )


@pytest.mark.parametrize("state", [State.DEAD, State.HELD])
def test_a_letter_gives_its_evidence_and_advice(state):
    said = told(state, attempts=5, failure=failure(Landed.MAYBE), age=172800.0)
    assert said == (
        f"It has been {state} for 2 d, after 5 attempts: timeout (no answer). "
        "The effect may exist. Bring it back, then replay."
    )
    assert "may exist" not in told(state, failure=failure())
    assert "()" not in told(state, failure=failure(message=""))


def test_a_letter_without_a_failure_says_since_when():
    assert told(State.HELD) == "It has been held for 1 min 30 s."


def test_a_completed_job_says_so_with_its_warning():
    assert told(State.COMPLETED) == "It completed 1 min 30 s ago."
    assert told(State.COMPLETED, warning="result_not_stored").endswith("with a warning: result_not_stored.")


def test_a_job_that_was_found_done_says_what_was_found():
    said = told(State.COMPLETED, warning="post_write_recovery", found=("ticket", "mail"))
    assert said == (
        "It completed 1 min 30 s ago: how its last attempt ended was unknown, but its effect was found there "
        "(ticket, mail), and nothing was run again (post_write_recovery)."
    )


def test_a_cancelled_job_says_what_took_its_place():
    assert told(State.CANCELLED) == "It was cancelled 1 min 30 s ago."
    assert told(State.CANCELLED, warning="not needed") == "It was cancelled 1 min 30 s ago: not needed."
    assert "job 42 of the same thread took its place" in told(State.CANCELLED, superseded_by="42", warning="x")


def test_a_waiting_step_says_so():
    assert "earlier step" in told(State.WAITING)


@pytest.mark.parametrize("state", State)
def test_every_state_has_one_sentence(state):
    assert told(state).endswith(".")


ALONE = " It ran when its worker died; next it runs alone."


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"ahead": 1}, f"It has been due for 30 s; 1 job of queue mail is due, 0 are running on 1 worker.{ALONE}"),
        (
            {"due_in": 2.0, "attempts": 1},
            f"Attempt 1 of 5 failed (worker_lost); the next one is due in 2 s.{ALONE}",
        ),
        ({"parked_on": "thread:mail:a"}, f"It has waited behind thread:mail:a for 30 s.{ALONE}"),
    ],
)
def test_a_job_that_ran_when_its_worker_died_is_said_to_run_alone_next(facts, said):
    lost = msgspec.structs.replace(failure(Landed.MAYBE), reason_code="worker_lost")
    assert told(State.QUEUED, failure=lost, **facts) == said
