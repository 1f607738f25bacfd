"""Boards that no store has to be brought into a state for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from standfast.cli.terminal import Cell
from standfast.wings.queues.boards import stats_board, workers_board

EMPTY: dict[str, Any] = {
    "total_pending": 0,
    "total_processing": 0,
    "total_dead_letter": 0,
    "total_awaiting_consent": 0,
    "queues": {},
    "oldest_pending_seconds": None,
    "next_retry_at": None,
    "workers": [],
    "gates": [],
}


def board(spool):
    return stats_board({**EMPTY, "spool": spool}, datetime.now(UTC))


def test_stats_count_what_is_parked_on_top():
    mail = {"due": 0, "running": 0, "scheduled": 0, "parked": 30, "letters": 0, "paused": False, "counters": {}}
    totals, _ = stats_board({**EMPTY, "queues": {"mail": mail}, "spool": None}, datetime.now(UTC))
    assert totals.rows[:2] == [("pending", Cell("0", "dim")), ("parked", Cell("30", "yellow"))]


def test_stats_show_what_waits_in_the_spool():
    entry = {"id": "job-1", "queue": "mail", "waited_seconds": 90.0, "reason": "not today"}
    totals, table = board({"depth": 2, "oldest_seconds": 90.0, "entries": [entry]})
    assert ("spooled here", Cell("2, the oldest for 1 min 30 s", "bold yellow")) in totals.rows
    assert (table.title, table.rows) == ("Spool", [["job-1", "mail", "1 min 30 s", "not today"]])


@pytest.mark.parametrize("spool", [None, {"depth": 0, "oldest_seconds": None, "entries": []}])
def test_stats_say_nothing_of_an_empty_spool(spool):
    [totals] = board(spool)
    assert "spooled here" not in [name for name, *_ in totals.rows]


def test_workers_lists_jobs_that_one_worker_began_at_the_same_moment():
    now = datetime.now(UTC)
    jobs = [{"id": name, "queue": "mail", "attempt": 1, "since": now} for name in ("job-2", "job-1")]
    card = {"id": "w", "host": "h", "pid": 7, "started_at": now, "beat_seconds_ago": 1.0, "queues": ["mail"]}
    _, running = workers_board([{**card, "running": {"mail": 2}, "jobs": jobs}], now)
    assert [job for job, *_ in running.rows] == ["job-1", "job-2"]
