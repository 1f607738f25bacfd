"""Boards that no store has to be brought into a state for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from standfast.cli.terminal import Cell
from standfast.wings.queues.boards import stats_board

EMPTY: dict[str, Any] = {
    "total_pending": 0,
    "total_processing": 0,
    "total_dead_letter": 0,
    "at_least": [],
    "queues": {},
    "oldest_pending_seconds": None,
    "next_retry_at": None,
    "workers": [],
    "gates": [],
}


def board(spool):
    return stats_board({**EMPTY, "spool": spool}, datetime.now(UTC))


@pytest.mark.parametrize(("at_least", "shown"), [([], "30"), (["parked"], "30+")])
def test_stats_count_what_is_parked_on_top(at_least, shown):
    mail = {"due": 0, "running": 0, "scheduled": 0, "parked": 30, "letters": 0, "paused": False, "counters": {}}
    queues = {"mail": {**mail, "at_least": at_least}}
    totals, _ = stats_board({**EMPTY, "queues": queues, "spool": None}, datetime.now(UTC))
    assert totals.rows[:2] == [("pending", Cell("0", "dim")), ("parked", Cell(shown, "yellow"))]


def test_stats_show_what_waits_in_the_spool():
    entry = {"id": "job-1", "queue": "mail", "waited_seconds": 90.0, "reason": "not today"}
    totals, table = board({"depth": 2, "oldest_seconds": 90.0, "entries": [entry]})
    assert ("spooled here", Cell("2, the oldest for 90 s", "bold yellow")) in totals.rows
    assert (table.title, table.rows) == ("Spool", [["job-1", "mail", "90 s", "not today"]])


@pytest.mark.parametrize("spool", [None, {"depth": 0, "oldest_seconds": None, "entries": []}])
def test_stats_say_nothing_of_an_empty_spool(spool):
    [totals] = board(spool)
    assert "spooled here" not in [name for name, *_ in totals.rows]
