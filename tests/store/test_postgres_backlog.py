"""What producers leave behind while no worker sweeps: worked off in bites, in order, and counted exactly meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from standfast import Standfast
from standfast.store.postgres import connection as sessions
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.journal_reader import Reader
from standfast.wings.notices.words import Notice
from standfast.worker import upkeep
from standfast.worker.upkeep import SweepRequest
from tests.postgres import connect
from tests.waiting import seen
from tests.worker.inside import store_of

BACKLOG = 12_000
"""More than two bites."""
LOST = (
    "UPDATE job SET state = 'running', ready_at = NULL, token = 1, attempts = 1, worker = 'gone', claimed_at = 1,"
    " lease = 3, replay_mode = 'replay', max_attempts = 5 WHERE queue = 'lost'"
)
"""Makes jobs those of a worker that has been gone for long."""


@pytest.fixture
async def sf(postgres_url: str):
    async with Standfast(postgres_url) as opened:
        await opened.stats()
        yield opened


@pytest.fixture
def server(sf: Standfast, postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    assert store_of(sf)  # it makes the schema
    with connect(postgres_url) as connection:
        yield connection


def leave_notices(server: psycopg.Connection[Any], number: int, about: str = "old") -> None:
    """Leave what so many transactions told."""
    server.execute(
        "INSERT INTO told (at, entries) SELECT 0, json_build_array(json_build_array('enqueued', %s::text,"
        " json_build_array(lpad(g::text, 9, '0'))))::text FROM generate_series(1, %s) AS g",
        (about, number),
    )


def count(server: psycopg.Connection[Any], table: str) -> int:
    [(number,)] = server.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()  # noqa: S608
    return int(number)


async def swept(store: Store) -> None:
    await store.write(upkeep.sweep, SweepRequest(every=10, patience=10))


# --- sweeping


async def test_after_a_long_time_without_workers_a_worker_reclaims_jobs_and_works_the_backlog_off(
    postgres_url, monkeypatch
):
    """In one statement the backlog of some hours ran into the limit of 5 s: from then on, every sweep failed."""
    monkeypatch.setattr(sessions, "LONGEST_CALL", 0.5)
    async with Standfast(postgres_url) as sf:
        sf.queue("lost", lease=3)
        sf.handler("lost")(lambda _job: None)
        lost = await sf.enqueue("lost")
        with connect(postgres_url) as server:
            server.execute(LOST)
            leave_notices(server, 400_000)
            async with sf.worker():
                assert (await sf.wait(lost.id, 30)).view == "completed"
                await seen(lambda: count(server, "told") < BACKLOG)
            assert await seen(lambda: count(server, "journal") > 390_000)


async def test_a_sweep_takes_a_bite_and_the_counts_are_exact_before_and_after(sf, server):
    await sf.enqueue_many("mail", [1, 2, 3])
    before = await counted(sf)
    ones = "(g % 2) * 2 - 1 FROM generate_series(1, 60000) AS g"
    server.execute(f"INSERT INTO counted (queue, name, value) SELECT 'mail', 'enqueued', {ones}")
    server.execute(f"INSERT INTO job_counted (what, slot, queue, number) SELECT 'parked', 0, 'mail', {ones}")
    await swept(store_of(sf))
    assert (0 < count(server, "counted") < 60_000, 0 < count(server, "job_counted") < 60_000) == (True, True)
    assert await store_of(sf).read(journal_scripts.last_journal_number()) > 0
    assert await counted(sf) == before  # reading them puts the rest together
    assert (count(server, "counted"), count(server, "job_counted")) == (0, 0)
    assert await counted(sf) == before


async def counted(sf: Standfast) -> dict[str, Any]:
    stats = await sf.stats()
    return {"queues": stats["queues"], "counters": stats["counters"]}


async def test_a_sweep_numbers_so_many_bytes_of_notices_at_most(sf, server):
    """A transaction may tell of 5000 jobs."""
    server.execute(
        "INSERT INTO told (at, entries) SELECT 0, '[[\"enqueued\", \"mail\", [\"' || repeat('x', 1000000) || '\"]]]'"
        " FROM generate_series(1, 20)"
    )
    await swept(store_of(sf))
    assert 0 < count(server, "told") < 20


# --- following


async def test_who_catches_up_with_a_backlog_sees_all_of_it_once_and_in_order(sf, server):
    leave_notices(server, BACKLOG)
    reader = await sf.reader(after=0)
    late = asyncio.ensure_future(sf.enqueue_many("mail", ["late"] * 10))
    others = [asyncio.ensure_future(swept(store_of(sf))) for _ in range(3)]
    found = await read_until(reader, lambda notices: len(notices) == BACKLOG + 10)
    await asyncio.gather(late, *others)
    assert [each.job for each in found if each.queue == "old"] == [f"{n:09}" for n in range(1, BACKLOG + 1)]
    assert all(one.seq < next_.seq for one, next_ in pairwise(found))


async def test_who_catches_up_sees_what_is_committed_late_under_an_early_number_once_too(sf, server, postgres_url):
    with connect(postgres_url) as late:
        late.execute("BEGIN")
        leave_notices(late, 1, "late")
        leave_notices(server, BACKLOG)
        reader = await sf.reader(after=0)
        found = await read_until(reader, lambda notices: len(notices) > 5000)
        late.execute("COMMIT")
    found += await read_until(reader, lambda notices: len(notices) == BACKLOG + 1 - len(found))
    assert [each.job for each in found if each.queue == "old"] == [f"{n:09}" for n in range(1, BACKLOG + 1)]
    assert [each.queue for each in found].count("late") == 1
    assert all(one.seq < next_.seq for one, next_ in pairwise(found))


async def test_who_follows_from_now_on_sees_nothing_of_a_backlog(sf, server):
    leave_notices(server, BACKLOG)
    reader = await sf.reader()
    new = await sf.enqueue("mail")
    [first, *_] = await read_until(reader, bool)
    assert (first.job, first.kind) == (new.id, "enqueued")


async def test_who_follows_from_now_on_waits_for_another_process_that_is_numbering(sf, server):
    leave_notices(server, 10)
    lock = "SELECT pg_advisory_lock(hashtextextended(current_schema() || ' journal', 57))"
    server.execute(lock)
    following = asyncio.ensure_future(sf.reader())
    done, _ = await asyncio.wait([following], timeout=0.5)
    assert not done
    server.execute(lock.replace("lock(", "unlock("))
    reader = await following
    new = await sf.enqueue("mail")
    [first, *_] = await read_until(reader, bool)
    assert first.job == new.id


async def test_alerts_begin_behind_a_backlog(sf, server):
    leave_notices(server, BACKLOG)
    store = store_of(sf)
    async with asyncio.timeout(30):
        while not await store.write(alerts.begin, ["notify"]):
            pass
    assert await store.read(alerts.followed("notify")) == count(server, "journal") == BACKLOG
    assert count(server, "told") == 0


async def read_until(reader: Reader, enough: Any) -> list[Notice]:
    found: list[Notice] = []

    async def read() -> bool:
        found.extend(await reader.more(0.2))
        return bool(enough(found))

    await seen(read)
    return found


# --- looking


async def test_a_look_at_the_journals_end_does_not_count_a_backlog_and_still_sees_it_grow(sf, server):
    store = store_of(sf)
    leave_notices(server, 3)
    assert await store.read(journal_scripts.last_journal_number()) == 3
    leave_notices(server, BACKLOG)
    assert await store.read(journal_scripts.last_journal_number()) < BACKLOG
    before = await store.read(journal_scripts.journal_end())
    assert await store.read(journal_scripts.journal_end()) == before
    leave_notices(server, 1)
    assert await store.read(journal_scripts.journal_end()) != before
