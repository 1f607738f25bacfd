"""`tx=` on PostgreSQL: a job is there exactly if the caller's own transaction commits, whatever library it is of."""
# ruff: noqa: S608 - the names of tables are the tests' own

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row

from standfast import Backpressure, ConfigurationError, IdempotencyConflict, Receipt, Standfast
from standfast.application.wings import SCRIPTS
from standfast.spine import rounds
from standfast.store.scripts import Call, Feeds
from standfast.store.steps import Round, Script
from standfast.worker import worker as worker_module
from tests.postgres import connect, split_schema
from tests.waiting import ended, job_of, seen
from tests.worker import theirs as libraries
from tests.worker.inside import store_of
from tests.worker.processes import environment
from tests.worker.theirs import BLOCKING, KINDS, Asyncpg, Theirs, plain


@pytest.fixture
def postgres_url(used_postgres_url: str) -> str:
    """Name a store that may have been used before: how one is made is not judged here."""
    return used_postgres_url


@pytest.fixture
async def sf(postgres_url: str) -> AsyncIterator[Standfast]:
    store = Standfast(postgres_url)
    await store.open()
    with connect(postgres_url) as ours:
        ours.execute("CREATE TABLE orders (number integer)")
        yield store
        await store.close()
        ours.execute("DROP TABLE orders")


LONG_KINDS = ("scoped session", "sqlalchemy async", "asyncpg pool", "sqlalchemy session")
EACH_KIND = [
    pytest.param(kind, marks=[pytest.mark.long] if any(words in kind for words in LONG_KINDS) else []) for kind in KINDS
]


@pytest.fixture(params=EACH_KIND)
async def theirs(request: pytest.FixtureRequest, sf: Standfast, postgres_url: str) -> AsyncIterator[Theirs]:
    """Give a connection of every library, to the database of the store, which is open."""
    assert sf.exists()
    async with KINDS[request.param](plain(postgres_url)) as opened:
        yield opened


@pytest.fixture
def orders(postgres_url: str) -> str:
    """Name a table of the user's."""
    return f"{split_schema(postgres_url)[1]}.orders"


def rows(url: str, table: str) -> int:
    with connect(url) as beside:
        [(number,)] = beside.execute(f"SELECT count(*) FROM {table}")
    return int(number)


def listening(url: str) -> bool:
    with connect(url) as beside:
        [(number,)] = beside.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query = %s", (f"LISTEN standfast_{split_schema(url)[1]}",)
        )
    return bool(number)


async def test_committed_is_enqueued_and_wakes_a_worker_at_once(sf, theirs, orders, postgres_url, monkeypatch):
    monkeypatch.setattr(worker_module, "POLL_EVERY", 600.0)
    ran: list[int] = []
    sf.handler("mail")(lambda job: ran.append(job.payload))
    async with sf.worker():
        await seen(lambda: listening(postgres_url))
        await theirs.do(f"INSERT INTO {orders} VALUES (7)")
        receipt = await sf.enqueue("mail", 7, tx=theirs.tx)
        assert receipt == Receipt(receipt.id, "accepted", "queued")
        assert await sf.status(receipt.id) is None
        await theirs.commit()
        await ended(sf, receipt.id, within=2)
    assert ran == [7]
    assert rows(postgres_url, orders) == 1


async def test_rolled_back_was_never_enqueued(sf, theirs, orders, postgres_url):
    await theirs.do(f"INSERT INTO {orders} VALUES (7)")
    receipt = await sf.enqueue("mail", 7, idempotency_key="k", tx=theirs.tx)
    await theirs.roll_back()
    assert await sf.status(receipt.id) is None
    assert await sf.jobs() == []
    assert (await sf.stats())["counters"] == {}
    assert (await sf.enqueue("mail", 8, idempotency_key="k")).outcome == "accepted"
    assert rows(postgres_url, orders) == 0


async def test_a_key_answers_inside_and_a_conflict_leaves_the_transaction_usable(sf, theirs, orders, postgres_url):
    first = await sf.enqueue("mail", 1, idempotency_key="k")
    same = await sf.enqueue("mail", 1, idempotency_key="k", tx=theirs.tx)
    assert same == Receipt(first.id, "duplicate", "queued")
    own = await sf.enqueue("mail", 3, idempotency_key="own", tx=theirs.tx)
    assert await sf.enqueue("mail", 3, idempotency_key="own", tx=theirs.tx) == Receipt(own.id, "duplicate", "queued")
    with pytest.raises(IdempotencyConflict) as conflict:
        await sf.enqueue("mail", 2, idempotency_key="k", tx=theirs.tx)
    assert conflict.value.job_id == first.id
    await theirs.do(f"INSERT INTO {orders} VALUES (7)")
    await theirs.commit()
    assert rows(postgres_url, orders) == 1
    assert {job.id for job in await sf.jobs()} == {first.id, own.id}


async def test_a_thread_folds_inside_and_unfolds_with_a_roll_back(sf, theirs):
    sf.queue("mail", coalesce="latest")
    first = await sf.enqueue("mail", 1, thread_key="t")
    folded = await sf.enqueue("mail", 2, thread_key="t", tx=theirs.tx)
    assert folded == Receipt(first.id, "coalesced", "queued")
    await theirs.roll_back()
    assert (await job_of(sf, first.id)).payload == 1
    await sf.enqueue("mail", 3, thread_key="t", tx=theirs.tx)
    await theirs.commit()
    left = await job_of(sf, first.id)
    assert (left.payload, left.coalesced and left.coalesced["count"]) == (3, 1)


async def test_what_waits_for_a_repeat_is_superseded_inside(sf, theirs):
    """The longest way through the scripts: a newcomer takes the place of one that was claimed before."""
    sf.queue("mail", backoff=lambda _repeat: 600, coalesce="latest")
    handler = sf.handler("mail")(_fail)
    old = await handler.enqueue(1, thread_key="t")
    await sf.worker().run_due()
    new = await handler.enqueue(2, thread_key="t", tx=theirs.tx)
    await theirs.commit()
    assert new.outcome == "accepted"
    replaced = await job_of(sf, old.id)
    assert (replaced.state, replaced.superseded_by) == ("cancelled", new.id)


async def _fail(_job: Any) -> None:
    raise ConnectionRefusedError


async def test_their_search_path_is_as_before(sf, theirs):
    await theirs.do('SET LOCAL search_path TO "$user", pg_catalog, public')
    before = await theirs.read("SHOW search_path")
    await sf.enqueue("mail", 1, idempotency_key="k", tx=theirs.tx)
    assert await theirs.read("SHOW search_path") == before
    with pytest.raises(IdempotencyConflict):
        await sf.enqueue("mail", 2, idempotency_key="k", tx=theirs.tx)
    assert await theirs.read("SHOW search_path") == before


async def test_a_fault_inside_is_raised_and_leaves_nothing_behind(sf, theirs, monkeypatch):
    before = await theirs.read("SHOW search_path")

    def broken(round_: Round, calls: list[Call], feeds: Feeds | None) -> Script[Any]:
        yield from rounds.run(round_, calls, feeds)
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(store_of(sf)._engine, "_scripts", replace(SCRIPTS, run=broken))  # noqa: SLF001
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        await sf.enqueue("mail", 1, tx=theirs.tx)
    assert await theirs.read("SHOW search_path") == before
    await theirs.commit()
    assert await sf.jobs() == []


async def test_a_transaction_that_has_failed_raises_what_its_library_raises(sf, theirs):
    errors = (psycopg.Error, asyncpg.PostgresError, sqlalchemy.exc.DBAPIError)
    with pytest.raises(errors):
        await theirs.do("SELECT 1 / 0")
    with pytest.raises(errors, match="aborted"):
        await sf.enqueue("mail", 1, tx=theirs.tx)


async def test_several_are_stored_together_or_not_at_all(sf, theirs):
    sf.queue("mail", max_depth=3)
    with pytest.raises(Backpressure):
        await sf.enqueue_many("mail", [1, 2, 3, 4], tx=theirs.tx)
    receipts = await sf.enqueue_many("mail", [1, 2, 3], tx=theirs.tx)
    assert [receipt.outcome for receipt in receipts] == ["accepted"] * 3
    await theirs.commit()
    assert {job.id for job in await sf.jobs()} == {receipt.id for receipt in receipts}


async def test_a_request_is_stored_inside_too(sf, theirs):
    receipt = await sf.enqueue_http("mail", "POST", "https://a.example/", body={"a": 1}, tx=theirs.tx)
    assert await sf.status(receipt.id) is None
    await theirs.commit()
    assert (await job_of(sf, receipt.id)).handler == "http"


async def test_a_commit_that_may_be_lost_is_refused(sf, theirs):
    await theirs.do("SET LOCAL synchronous_commit TO off")
    with pytest.raises(ConfigurationError, match="synchronous_commit"):
        await sf.enqueue("mail", 1, tx=theirs.tx)
    await theirs.commit()
    assert await sf.jobs() == []


@pytest.mark.parametrize("kind", EACH_KIND)
async def test_another_database_is_refused(sf, postgres_url, kind):
    elsewhere = plain(postgres_url).replace("/postgres?", "/template1?", 1)
    assert elsewhere != plain(postgres_url)
    async with KINDS[kind](elsewhere) as theirs:
        with pytest.raises(ConfigurationError, match="another database") as refused:
            await sf.enqueue("mail", 1, tx=theirs.tx)
        assert "nothing was written" in str(refused.value)
        await theirs.do("SELECT 1")
        await theirs.commit()


# --- without a loop


@pytest.mark.parametrize("kind", EACH_KIND)
async def test_code_without_a_loop_hands_in_a_connection_that_blocks(sf, postgres_url, kind):
    async with KINDS[kind](plain(postgres_url)) as theirs:
        if kind not in BLOCKING:
            with pytest.raises(ConfigurationError, match="await"):
                sf.enqueue_sync("mail", 1, tx=theirs.tx)
            return
        lost = sf.enqueue_sync("mail", 1, tx=theirs.tx)
        await theirs.roll_back()
        kept = sf.enqueue_sync("mail", 2, tx=theirs.tx)
        await theirs.commit()
    assert await sf.status(lost.id) is None
    assert (await job_of(sf, kept.id)).payload == 2


# --- connections that cannot roll back


async def test_psycopg_in_autocommit_is_refused_unless_a_transaction_is_open(sf, postgres_url):
    with psycopg.connect(plain(postgres_url), autocommit=True) as connection:
        with pytest.raises(ConfigurationError, match="autocommit"):
            await sf.enqueue("mail", 1, tx=connection)
        assert await sf.jobs() == []
        with connection.transaction():
            await sf.enqueue("mail", 2, tx=connection)
    async with await psycopg.AsyncConnection.connect(plain(postgres_url), autocommit=True) as awaited:
        with pytest.raises(ConfigurationError, match="autocommit"):
            await sf.enqueue("mail", 1, tx=awaited)
        async with awaited.transaction():
            await sf.enqueue("mail", 2, tx=awaited)
    assert [job.payload for job in await sf.jobs()] == [2, 2]


async def test_psycopg_in_pipeline_mode_is_refused(sf, postgres_url):
    async with await psycopg.AsyncConnection.connect(plain(postgres_url)) as connection, connection.pipeline():
        with pytest.raises(ConfigurationError, match="pipeline"):
            await sf.enqueue("mail", 1, tx=connection)
    assert await sf.jobs() == []


async def test_asyncpg_without_a_transaction_is_refused(sf, postgres_url):
    connection = await asyncpg.connect(plain(postgres_url))
    with pytest.raises(ConfigurationError, match="no transaction is open"):
        await sf.enqueue("mail", 1, tx=connection)
    await connection.close()
    assert await sf.jobs() == []


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_sqlalchemy_in_autocommit_is_refused(sf, postgres_url, driver):
    async with libraries.with_async_connection(driver)(plain(postgres_url)) as theirs:
        await theirs.tx.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(ConfigurationError, match="autocommit"):
            await sf.enqueue("mail", 1, tx=theirs.tx)
    assert await sf.jobs() == []


async def test_other_databases_and_other_things_are_refused(sf, tmp_path, postgres_url):
    with sqlalchemy.create_engine("sqlite://").connect() as other:
        other.dialect.name = "mysql"  # there is no server of its kind here
        with pytest.raises(ConfigurationError, match="to mysql over pysqlite"):
            await sf.enqueue("mail", 1, tx=other)
        other.engine.dispose()
    with pytest.raises(ConfigurationError, match="psycopg, asyncpg or SQLAlchemy"):
        await sf.enqueue("mail", 1, tx="shop")
    async with Standfast(str(tmp_path / "queue.db")) as file, libraries.with_psycopg(plain(postgres_url)) as theirs:
        with pytest.raises(ConfigurationError, match="SQLite database"):
            await file.enqueue("mail", 1, tx=theirs.tx)


# --- connections set up in ways of their own


async def test_rows_and_cursors_of_their_own_do_not_matter(sf, postgres_url):
    with psycopg.connect(plain(postgres_url), row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
        await sf.enqueue("mail", 1, idempotency_key="k", thread_key="t", tx=connection)
    assert [job.payload for job in await sf.jobs()] == [1]


async def test_a_codec_of_their_own_does_not_matter(sf, postgres_url):
    connection = await asyncpg.connect(plain(postgres_url))
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=repr, decoder=repr, schema="pg_catalog")
    async with connection.transaction():
        await sf.enqueue("mail", 1, idempotency_key="k", thread_key="t", tx=connection)
    await connection.close()
    assert [job.payload for job in await sf.jobs()] == [1]


async def test_a_blocked_connection_stops_neither_the_loop_nor_is_it_let_go_early(sf, postgres_url):
    """Another transaction holds the key. The loop goes on, and a cancelled call waits for its thread to be done."""
    async with libraries.with_psycopg(plain(postgres_url)) as one, libraries.with_psycopg(plain(postgres_url)) as other:
        await sf.enqueue("mail", 1, idempotency_key="k", tx=one.tx)
        waiting = asyncio.create_task(sf.enqueue("mail", 1, idempotency_key="k", tx=other.tx))
        await seen(lambda: blocked(postgres_url, other.tx.info.backend_pid))
        waiting.cancel()
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        await one.commit()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await other.do("SELECT 1")


def blocked(url: str, pid: int) -> bool:
    with connect(url) as beside:
        found = beside.execute("SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
    return found == ("Lock",)


async def test_a_fallback_is_called_where_nothing_was_written(sf, postgres_url):
    sf.queue("mail", max_depth=1)
    called: list[str] = []
    async with libraries.with_asyncpg(plain(postgres_url)) as theirs:
        assert isinstance(theirs, Asyncpg)
        await sf.enqueue("mail", 1, tx=theirs.tx)
        receipt = await sf.enqueue("mail", 2, tx=theirs.tx, otherwise=lambda: called.append("otherwise"))
        await theirs.commit()
    assert receipt.outcome == "fallback"
    assert called == ["otherwise"]
    assert [job.payload for job in await sf.jobs()] == [1]


def test_no_library_is_loaded_that_the_caller_did_not_load(postgres_url):
    code = (
        "import sys, psycopg, standfast\n"
        "with psycopg.connect(sys.argv[2]) as theirs:\n"
        "    standfast.Standfast(sys.argv[1]).enqueue_sync('mail', 1, tx=theirs)\n"
        "assert not {'asyncpg', 'sqlalchemy', 'sqlite3'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", code, postgres_url, plain(postgres_url)]
    subprocess.run(command, check=True, env={**os.environ, **environment()}, timeout=30)
