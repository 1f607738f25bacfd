"""Sheets and lists of jobs that no store has to be brought into a state for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from standfast.cli.sheets import LONGEST_NOTE, listing, sheet
from standfast.failure import Class, Failure, Landed
from standfast.lifecycle import NoticeKind, State
from standfast.views import Attempt
from standfast.wings.notices.commands import WIDTHS
from tests.core.test_replies import job

NOW = datetime.now(UTC)


def note(**known: Any) -> str:
    [row] = listing([job(State.QUEUED, **known)], NOW).rows
    return str(row[-1])


def facts(table: Any) -> dict[str, str]:
    return {row[0]: getattr(row[1], "text", row[1]) for row in table.rows}


def test_a_parked_job_names_what_it_waits_for():
    parked = {"view": "parked", "parked_on": "breaker:crm"}
    assert note(**parked) == "waits for breaker:crm"
    assert facts(sheet(job(State.QUEUED, **parked), NOW)[0])["waits for"] == "breaker:crm"
    assert "waits for" not in facts(sheet(job(State.QUEUED), NOW)[0])


def test_lists_of_jobs_and_letters_name_handlers_that_are_not_called_like_their_queue():
    mail, task = job(State.DEAD, queue="mail", handler="mail"), job(State.DEAD, queue="celery", handler="shop.charge")
    for letters in (False, True):
        shown = listing([mail, task], NOW, letters=letters)
        assert shown.columns[:4] == ("id", "queue", "handler", "state")
        assert [row[1:3] for row in shown.rows] == [("mail", ""), ("celery", "shop.charge")]
    assert "handler" not in listing([mail], NOW).columns


def test_a_job_that_was_wanted_before_it_came_says_since_when():
    seen, entered = NOW - timedelta(days=2), NOW - timedelta(minutes=5)
    known = job(State.QUEUED, first_seen_at=seen, created_at=entered, last_entered_at=entered)
    shown = facts(sheet(known, NOW)[0])
    assert [shown[name].partition("Z ")[2] for name in ("first seen", "created", "last entered")] == [
        *("(2 d ago)", "(5 min ago)", "(5 min ago)")
    ]
    table = listing([known], NOW)
    assert table.rows[0][table.columns.index("age")] == "2 d ago"


def test_a_job_that_was_wanted_when_it_came_says_so_once():
    known = job(State.QUEUED, first_seen_at=NOW, created_at=NOW, last_entered_at=NOW + timedelta(microseconds=2))
    shown = facts(sheet(known, NOW)[0])
    assert "created" in shown
    assert not {"first seen", "last entered"} & shown.keys()


def test_a_long_note_is_cut_without_a_word():
    failure = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="denied", message="x" * 200)
    said = note(failure=failure)
    assert (len(said), said[-2:]) == (LONGEST_NOTE, "x…")


def test_a_receipt_that_came_late_says_so():
    effect = {"name": "ticket", "verdict": "verified", "receipt": 7, "at": NOW, "attempt": 2}
    *_, table = sheet(job(State.COMPLETED, effects=[{**effect, "late": True}, effect]), NOW)
    assert [row[1] for row in table.rows] == ["verified, late", "verified"]


def test_every_kind_of_notice_has_room_in_its_column():
    assert WIDTHS[1] == max(len(kind) for kind in NoticeKind)


def test_a_shortened_history_says_how_many_lines_are_missing():
    line = Attempt(attempt=1, at=NOW, reason_code="snoozed", delay=10.0, left_out=99_899)
    history = next(table for table in sheet(job(State.QUEUED, history=[line]), NOW) if table.title == "History")
    assert history.rows[0][5] == "after 10 s, 99,899 more like it"
