"""Limits, rates, breakers and gates as `standfast stats` lays them out, and as the page of a queue words them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from standfast import Transient
from standfast.testing import drain, memory
from standfast.wings.queues.boards import stats_board
from standfast.wings.queues.pages import gate_words
from tests.on_disk import frozen

SINCE = "2026-01-02T11:45:00+00:00"
BREAKER = {"key": "breaker:crm", "kind": "breaker"}
AWAY = "crm has not answered since 2026-01-02 11:45 UTC"


async def test_every_kind_of_gate_says_how_it_stands():
    async with memory() as sf:
        counted: dict[str, Any] = await sf.stats()
    assert [table.title for table in stats_board(counted, datetime.now(UTC))] == [""], "and none is shown without need"
    counted["gates"] = [
        {"key": "limit:mail:a", "kind": "limit", "used": 2, "limit": 2, "opens_in": None},
        {"key": "rate:mail", "kind": "rate", "opens_in": 0.2},
        {"key": "breaker:crm", "kind": "breaker", "state": "open", "failures": 3, "since": SINCE, "opens_in": 12.0},
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
        ["rate:mail", "", "200 ms"],
        ["breaker:crm", f"{AWAY}; next try in 12 s", "12 s"],
        ["gate:mail", "closed for 1 min: it says no", ""],
        ["probe:a:b", "closed for 5 s: HTTP 503", ""],
        ["probe:a:c", "up in one process, not in another", ""],
    ]


@pytest.fixture
def sf(request):
    return frozen(request)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({"key": "limit:mail", "kind": "limit", "used": 2, "limit": 8, "opens_in": None}, "2 of 8 taken"),
        ({"key": "rate:mail", "kind": "rate", "opens_in": 2.0}, "opens in 2 s"),
        (
            {
                "key": "breaker:crm",
                "kind": "breaker",
                "state": "open",
                "failures": 3,
                "since": SINCE,
                "opens_in": 360.0,
            },
            f"{AWAY}; next try in 6 min",
        ),
        (
            {
                "key": "breaker:crm",
                "kind": "breaker",
                "state": "probing",
                "failures": 1,
                "since": SINCE,
                "opens_in": 20.0,
            },
            f"{AWAY}; it is being tried now",
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


@pytest.mark.parametrize("sf", ["memory", "postgres"], indirect=True)
async def test_what_has_not_answered_is_tried_at_once_when_a_person_asks(sf):
    async with sf:
        away = True

        @sf.handler("sync")
        async def sync(_job):
            if away:
                raise Transient("no route")

        sf.queue("sync", breaker={"dependency": "CRM", "failures": 1, "open_for": 600})
        job = await sf.enqueue("sync")
        await drain(sf)
        assert await sf.queues.try_now("nothing of the kind") is False
        [issue] = [each for each in (await sf.health())["issues"] if each.startswith("CRM")]
        assert issue.endswith("next try in 10 min"), issue
        away = False
        sf.clock.advance(60)
        await drain(sf)
        assert (await sf.status(job.id)).view == "parked", "it is not tried before its time"
        assert await sf.queues.try_now("CRM") is True
        await drain(sf)
        assert (await sf.status(job.id)).state == "completed"
        assert not [each for each in (await sf.health())["issues"] if "CRM" in each]
        assert await sf.queues.try_now("CRM") is False
