"""What health says of a PostgreSQL server that others hold back, and of texts that it cannot be asked for."""

from __future__ import annotations

import pytest

from standfast import ConfigurationError, Standfast
from standfast.wings.health import strain
from tests.postgres import connect
from tests.waiting import seen


@pytest.fixture
async def sf(postgres_url):
    async with Standfast(postgres_url) as opened:
        yield opened


async def issues(sf, words):
    return [issue for issue in (await sf.health())["issues"] if words in issue]


async def test_a_transaction_that_stays_open_is_named_until_it_ends(sf, postgres_url, monkeypatch):
    monkeypatch.setattr(strain, "OLDEST_SNAPSHOT", 0.0)
    with connect(postgres_url) as forgotten:
        pid = forgotten.info.backend_pid
        assert await issues(sf, f"(pid {pid})") == []
        forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT 1")
        # Tests beside this one have transactions too, and the oldest is named: it is this one's turn some time.
        [said] = await seen(lambda: issues(sf, f"(pid {pid}) has held a snapshot"))
        assert "end it" in said
        forgotten.execute("COMMIT")
        await seen(lambda: gone(sf, pid))


async def gone(sf, pid):
    return await issues(sf, f"(pid {pid})") == []


@pytest.mark.long
async def test_dead_rows_are_told(sf, postgres_url, monkeypatch):
    monkeypatch.setattr(strain, "LEAST_DEAD", 40)
    with connect(postgres_url) as beside:
        beside.execute("ALTER TABLE job SET (autovacuum_enabled = off)")
        await sf.enqueue("mail")
        for _ in range(50):
            beside.execute("UPDATE job SET priority = priority + 1")
    await seen(lambda: issues(sf, "dead rows to 1 live ones"))


async def test_what_the_server_cannot_be_asked_for_is_no_trouble_of_the_store(sf):
    with pytest.raises(ConfigurationError, match="must be printable text"):
        await sf.jobs(queue="nul\0")
    assert await sf.jobs(queue="mail") == []
