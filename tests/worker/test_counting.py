"""Counts are true: where counting stops at its bound, they say so."""

from __future__ import annotations

import pytest

from standfast.cli.boards import queue_board, stats_board
from standfast.cli.terminal import Cell, Table
from standfast.store import reads
from standfast.testing import drain

BOUND = 3


@pytest.fixture(autouse=True)
def _counts_little(monkeypatch):
    monkeypatch.setattr(reads, "MOST_COUNTED", BOUND)


def cells(*tables: Table) -> set[str]:
    return {cell.text if isinstance(cell, Cell) else cell for table in tables for row in table.rows for cell in row}


async def test_counts_below_the_bound_are_exact(sf):
    await sf.enqueue_many("mail", [1] * (BOUND - 1))
    counted = await sf.stats()
    assert (counted["total_pending"], counted["at_least"], counted["queues"]["mail"]["at_least"]) == (BOUND - 1, [], [])
    assert (await sf.health())["at_least"] == []


@pytest.mark.parametrize("late", [False, True])
async def test_due_jobs_beyond_it_are_told_as_at_least_so_many(sf, late):
    await sf.enqueue_many("mail", [1] * (BOUND + 2), delay=5 if late else 0)
    sf.clock.advance(10)
    counted, judged = await sf.stats(), await sf.health()
    assert (counted["total_pending"], counted["at_least"]) == (BOUND, ["total_pending"])
    assert (judged["total_pending"], judged["at_least"]) == (BOUND, ["total_pending"])
    assert counted["queues"]["mail"]["at_least"] == ["due"]
    assert "mail: 3+ due jobs and no worker" in judged["issues"]
    assert "3+" in cells(*stats_board(counted, (await sf.jobs())[0].created_at))
    assert "3+" in cells(queue_board(await sf.queues.describe()))


async def test_letters_beyond_it_too(sf):
    sf.queue("mail", attempts=1, dead_warning=0)
    sf.handler("mail")(lambda _job: 1 / 0)
    await sf.enqueue_many("mail", [1] * (BOUND + 2))
    await drain(sf)
    judged = await sf.health()
    assert (judged["total_dead_letter"], judged["at_least"]) == (BOUND, ["total_dead_letter"])
    assert "mail: 3+ dead letters" in judged["issues"]


async def test_what_is_scheduled_elsewhere_makes_every_queues_count_a_bound(sf):
    await sf.enqueue_many("mail", [1] * (BOUND + 2), delay=60)
    await sf.enqueue("chat", delay=90)
    queues = (await sf.stats())["queues"]
    assert [queues[name]["at_least"] for name in ("chat", "mail")] == [["scheduled"], ["scheduled"]]
