"""An outbox whose rows cannot be deleted hands its jobs over again and again: each runs once, and health says so."""

from __future__ import annotations

import sqlite3

import pytest

from standfast import Standfast
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.waiting import seen

DAY = 86400.0


@pytest.fixture
def url(path):
    """Name a file: the store's own is none of this."""
    return path


@pytest.fixture
def database(tmp_path):
    """Make a database of a user's own."""
    path = str(tmp_path / "shop.db")
    sqlite3.connect(path).close()
    return path


@pytest.fixture
def shop(database):
    """Open it as the user does."""
    opened = sqlite3.connect(database)
    yield opened
    opened.close()


@pytest.fixture(params=["file", "postgres"])
async def store(request, path):
    """Give a store on each engine that keeps completed jobs for no time at all."""
    url = path if request.param == "file" else request.getfixturevalue("used_postgres_url")
    async with Standfast(url) as made:
        made.queue("mail", keep_completed=0.01)
        yield made


def read_only(database: str) -> sqlite3.Connection:
    """Open a database as a user who may not write its file."""
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True)


def counting(sf: Standfast) -> list[int]:
    """Declare a queue; return the payloads of what ran."""
    ran: list[int] = []
    sf.handler("mail")(lambda job: ran.append(job.payload))
    return ran


def waiting(shop: sqlite3.Connection) -> int:
    [(number,)] = shop.execute("SELECT count(*) FROM standfast_outbox")
    return int(number)


async def prune(sf: Standfast) -> None:
    await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001


async def all_pruned(sf: Standfast) -> bool:
    await prune(sf)
    return not await sf.jobs()


async def test_a_job_that_cannot_leave_its_outbox_runs_once_even_after_it_was_pruned(store, shop, database):
    ran = counting(store)
    await store.open()
    for number in (1, 2):
        await store.enqueue("mail", number, tx=shop)
    shop.commit()
    stuck = store.outbox(lambda: read_only(database))
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await stuck.relay()
        await store.worker().run_due()
        await seen(lambda: all_pruned(store))
    assert ran == [1, 2]
    await stuck.close()
    mended = store.outbox(lambda: sqlite3.connect(database))
    assert await mended.relay() == 2, "what is known leaves the outbox once it can"
    await store.worker().run_due()
    assert (ran, waiting(shop)) == ([1, 2], 0)
    await mended.close()


async def test_a_row_that_is_no_job_and_cannot_be_deleted_becomes_one_letter_once(store, shop, database):
    await store.enqueue("mail", 1, tx=shop)
    shop.execute("UPDATE standfast_outbox SET job = 'no job'")
    shop.commit()
    stuck = store.outbox(lambda: read_only(database))
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await stuck.relay()
    [letter] = await store.dead_letters.list()
    assert len(letter.history) == 1
    await store.dead_letters.purge({}, by="ann", reason="known", confirm=1)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await stuck.relay()
    assert await store.dead_letters.list() == []
    await stuck.close()


async def test_an_id_is_forgotten_a_month_after_it_was_last_handed_over(sf, shop, database):
    """Not a month after the first time: an outbox may be stuck for longer than that."""
    ran = counting(sf)
    await sf.enqueue("mail", 7, tx=shop)
    shop.commit()
    stuck = sf.outbox(lambda: read_only(database))
    for days in (0, 20, 20, 20):
        sf.clock.advance(days * DAY)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await stuck.relay()
        await sf.worker().run_due()
        sf.clock.advance(2 * DAY)
        await seen(lambda: all_pruned(sf))
    assert ran == [7]
    sf.clock.advance(29 * DAY)
    await prune(sf)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await stuck.relay()
    await sf.worker().run_due()
    assert ran == [7, 7], "what nobody has handed over for a month is forgotten"
    await stuck.close()


async def test_health_says_that_an_outbox_cannot_be_emptied_and_what_to_do(disk, shop, database, monkeypatch, caplog):
    monkeypatch.setattr("standfast.wings.relay.stuck.STUCK_AFTER", 0.0)
    await disk.enqueue("mail", 1, tx=shop)
    shop.commit()
    connect = read_only

    async def issues() -> list[str]:
        return [each for each in (await disk.health())["issues"] if each.startswith("outbox: ")]

    async def none_left() -> bool:
        return not await issues()

    async with disk.outbox(lambda: connect(database), every=0.01):
        [issue] = await seen(issues, within=10)
        assert database in issue
        assert "attempt to write a readonly database" in issue
        assert "what was brought is not run again" in issue
        assert "attempt to write a readonly database" in caplog.text
        connect = sqlite3.connect
        await seen(lambda: waiting(shop) == 0)
        await seen(none_left)
