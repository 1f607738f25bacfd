"""Limits, rates, breakers and gates as `standfast stats` lays them out, and as the page of a queue words them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from standfast.testing import memory
from standfast.wings.queues.boards import stats_board
from standfast.wings.queues.pages import gate_words


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


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({"key": "limit:mail", "kind": "limit", "used": 2, "limit": 8, "opens_in": None}, "2 of 8 taken"),
        ({"key": "rate:mail", "kind": "rate", "opens_in": 2.0}, "opens in 2 s"),
        (
            {"key": "breaker:crm", "kind": "breaker", "state": "open", "failures": 3, "opens_in": 360.0},
            "crm has not answered 3 times; next try in 6 min",
        ),
        (
            {"key": "breaker:crm", "kind": "breaker", "state": "probing", "failures": 1, "opens_in": None},
            "crm has not answered; it is being tried",
        ),
        (
            {"key": "breaker:crm", "kind": "breaker", "state": "recovering", "failures": 0, "opens_in": None},
            "crm answers again",
        ),
        ({"key": "breaker:crm", "kind": "breaker", "state": "closed", "failures": 0, "opens_in": None}, "crm answers"),
        ({"key": "gate:mail", "kind": "gate", "why": "it says no", "opens_in": 30.0}, "it says no; opens in 30 s"),
        ({"key": "probe:a:b", "kind": "probe", "why": "HTTP 503", "up": False, "opens_in": None}, "HTTP 503"),
    ],
)
def test_the_page_of_a_queue_says_how_each_gate_stands(gate, words):
    assert gate_words(gate) == words
