"""Limits, rates, breakers and gates as `standfast stats` lays them out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from standfast.testing import memory
from standfast.wings.queues.boards import stats_board


async def test_every_kind_of_gate_says_how_it_stands():
    async with memory() as sf:
        counted: dict[str, Any] = await sf.stats()
    assert [table.title for table in stats_board(counted, datetime.now(UTC))] == [""], "and none is shown without need"
    counted["gates"] = [
        {"key": "limit:mail:a", "kind": "limit", "used": 2, "limit": 2, "opens_in": None},
        {"key": "rate:mail", "kind": "rate", "opens_in": 0.2},
        {"key": "breaker:crm", "kind": "breaker", "state": "open", "failures": 3, "opens_in": 12.0},
        {
            "key": "gate:mail",
            "kind": "gate",
            "closed_seconds": 60.0,
            "why": "it says no",
            "broken": False,
            "opens_in": None,
        },
        {"key": "probe:a:b", "kind": "probe", "closed_seconds": 5.0, "why": "HTTP 503", "up": False, "opens_in": None},
        {"key": "probe:a:c", "kind": "probe", "closed_seconds": 5.0, "why": "HTTP 503", "up": True, "opens_in": None},
    ]
    _, board = stats_board(counted, datetime.now(UTC))
    rows = [[getattr(cell, "text", cell) for cell in row] for row in board.rows]
    assert rows == [
        ["limit:mail:a", "2 of 2 taken", ""],
        ["rate:mail", "", "0.2 s"],
        ["breaker:crm", "open, 3 failures", "12 s"],
        ["gate:mail", "closed for 60 s: it says no", ""],
        ["probe:a:b", "closed for 5 s: HTTP 503", ""],
        ["probe:a:c", "up in one process, not in another", ""],
    ]
