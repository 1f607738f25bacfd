"""That the check of the lock order sees a fall, and only a fall."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from standfast.store.postgres import driver as postgres
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import connect, opening
from standfast.store.sqlite import sqlite_engine as sqlite
from standfast.store.statements import RANKS, load
from standfast.store.steps import Script
from tests.lock_order import FALLS, Transaction

Step = tuple[str, dict[str, Any]]

JOB: Step = ("lock_jobs", {"numbers": "[1]"})
THREAD: Step = ("lock_gates", {"gates": '["thread:mail:a"]'})
LIMIT: Step = ("lock_gates", {"gates": '["limit:mail"]'})
TWO_JOBS: Step = ("move_jobs", {"numbers": "[1, 2]"})
APPROVAL: Step = ("approval_standings", {"ids": "[]"})


def falls(*steps: Step) -> list[str]:
    transaction = Transaction()
    return [fallen for name, given in steps for fallen in transaction.falls(name, given)]


@pytest.mark.parametrize(
    "steps",
    [
        (THREAD, JOB, APPROVAL, LIMIT),
        (JOB, APPROVAL, ("move_jobs", {"numbers": "[1]"})),
        (JOB, LIMIT, ("promote_due", {})),
        (JOB, APPROVAL, ("release_keys", {"numbers": "[1]"})),
        (JOB, APPROVAL, ("write_journal", {})),
    ],
    ids=["in order", "what it has already", "what only tries", "a listed fall", "rows that are new"],
)
def test_what_waits_in_no_circle_is_no_fall(steps):
    assert falls(*steps) == []


@pytest.mark.parametrize(
    ("steps", "fallen"),
    [
        ((JOB, THREAD), "lock_gates (gates) after lock_jobs (jobs)"),
        ((LIMIT, JOB), "lock_jobs (jobs) after lock_gates (limits)"),
        (
            (JOB, APPROVAL, ("move_jobs", {"numbers": "[1, 2]"})),
            "move_jobs (jobs) after approval_standings (approvals)",
        ),
        ((("try_gates", {"gates": '["limit:mail"]'}), JOB), "lock_jobs (jobs) after try_gates (limits)"),
    ],
    ids=["a thread after a job", "a job after a limit", "a job that was not locked", "after what was only tried"],
)
def test_what_may_wait_in_a_circle_is_a_fall(steps, fallen):
    assert falls(*steps) == [fallen]


def test_every_listed_fall_is_one_and_says_why():
    place = {rank: number for number, rank in enumerate(RANKS)}
    statements = load("postgres")
    for each in FALLS:
        assert each.why
        for name in each.statements:
            assert statements[name].waits
            assert any(place[rank] > place[statements[name].rank] for rank in each.after), name


def running(*steps: Step) -> Script[None]:
    left = list(steps)
    while left:
        yield left.pop(0)


def test_the_check_looks_at_what_sqlite_runs(lock_order):
    sqlite.drive(apsw.Connection(":memory:"), running(JOB, THREAD))
    assert lock_order.falls == ["lock_gates (gates) after lock_jobs (jobs)"]
    lock_order.falls.clear()


def test_the_check_looks_at_what_postgres_runs(used_postgres_url, lock_order):
    address = Address.read(used_postgres_url)
    with connect(address) as connection:
        connection.begin(opening(address))
        postgres.drive(connection, running(JOB, THREAD))
        assert lock_order.falls == ["lock_gates (gates) after lock_jobs (jobs)"]
        lock_order.falls.clear()
        connection.finish()
        connection.begin(opening(address))
        postgres.drive(connection, running(THREAD))
        assert lock_order.falls == [], "another transaction begins anew"
