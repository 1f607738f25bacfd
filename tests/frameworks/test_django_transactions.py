"""A task is there exactly if the transaction that enqueues it commits, wherever the ORM keeps its data."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.test import override_settings

from standfast import ConfigurationError, JobView, Standfast
from standfast.django import task_store
from standfast.testing import drain
from tests.frameworks import djangos
from tests.frameworks.djangos import default_task_backend
from tests.frameworks.shop import tasks
from tests.frameworks.shop.models import Order
from tests.warm import run_warm
from tests.worker.processes import environment

DYING = Path(__file__).with_name("dying_at_commit.py")


def stored(*ids: str | None) -> list[bool]:
    """Tell which of these jobs are in the store."""

    async def look() -> list[bool]:
        return [await default_task_backend.sf.status(each) is not None for each in ids]

    return asyncio.run(look())


async def arrived(sf: Standfast, job_id: str | None) -> JobView:
    """Give a job that a relay brings, once it is done."""
    async for notice in sf.subscribe(["completed"], after=0):
        if notice.job == job_id:
            break
    return await sf.wait(job_id, timeout=20)


def test_what_is_committed_runs(backend):
    with transaction.atomic():
        Order.objects.create(number=7)
        result = tasks.add.enqueue(7)
        assert stored(result.id) == [False]
    assert stored(result.id) == [True]
    asyncio.run(drain(backend.sf))
    result.refresh()
    assert (result.return_value, Order.objects.count()) == (7, 1)


def test_what_is_rolled_back_never_was(backend):
    with transaction.atomic():
        Order.objects.create(number=7)
        result = tasks.add.enqueue(7)
        transaction.set_rollback(True)
    asyncio.run(drain(backend.sf))
    assert (stored(result.id), tasks.CALLS, Order.objects.count()) == ([False], [], 0)


def test_a_savepoint_takes_its_tasks_with_it(backend):
    with transaction.atomic():
        kept = tasks.add.enqueue(1)
        with transaction.atomic():
            dropped = tasks.add.enqueue(2)
            transaction.set_rollback(True)
        also_kept = tasks.add.enqueue(3)
    assert stored(kept.id, dropped.id, also_kept.id) == [True, False, True]
    asyncio.run(drain(backend.sf))
    assert tasks.CALLS == [(1, 0), (3, 0)]


def test_outside_a_transaction_it_is_there_at_once(backend):
    assert backend.sf is default_task_backend.sf
    assert stored(tasks.add.enqueue(1).id) == [True]


@pytest.mark.parametrize(("options", "survives"), [({"enqueue": "immediate"}, True), ({"enqueue": "on_commit"}, False)])
def test_settings_say_how_it_is_enqueued(backend, options, survives):
    assert options
    with transaction.atomic():
        result = tasks.add.enqueue(1)
        assert stored(result.id) == [survives]
        transaction.set_rollback(True)
    assert stored(result.id) == [survives]
    with transaction.atomic():
        result = tasks.add.enqueue(1)
    assert stored(result.id) == [True]
    asyncio.run(drain(backend.sf))


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_process_that_dies_at_the_commit_leaves_it_to_workers(backend, database):
    """The order is committed, and its task with it: a worker finds it in the ORM's own database."""
    command = [sys.executable, str(DYING), backend.sf.settings.url.value, database["NAME"]]
    assert run_warm(command, env=environment(), timeout=50).returncode == -signal.SIGKILL
    assert Order.objects.count() == 1

    async def work() -> list[JobView]:
        assert list(await backend.sf.jobs()) == []
        async with backend.sf.worker():
            async for _ in backend.sf.subscribe(["completed"], after=0):
                return list(await backend.sf.jobs())
        return []

    assert [job.result for job in asyncio.run(work())] == [7]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_database_in_memory_enqueues_on_commit(backend, database, waiting_for_commit):
    """As a project's own tests have it: nothing is enqueued until callbacks are run."""
    djangos.use_database(djangos.in_sqlite(":memory:"))
    with transaction.atomic():
        result = tasks.add.enqueue(7)
        assert stored(result.id) == [False]
        [callback] = waiting_for_commit()
        callback()
        assert stored(result.id) == [True]
    djangos.use_database(database)
    assert backend.sf is not None


@pytest.fixture
def waiting_for_commit():
    """Give the callbacks that wait for the commit."""
    return lambda: [function for _, function, *_ in connection.run_on_commit]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_another_postgres_database_enqueues_on_commit(backend, tmp_path, database):
    """A store elsewhere cannot be part of the transaction; it hears of the commit."""
    assert database
    url = str(tmp_path / "elsewhere.db")
    with override_settings(TASKS=djangos.tasks(url)):
        with transaction.atomic():
            result = tasks.add.enqueue(7)
            assert stored(result.id) == [False]
        assert stored(result.id) == [True]
        asyncio.run(default_task_backend.sf.close())
    assert backend.sf is not None


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_store_in_another_database_of_the_same_server_hears_of_the_commit(backend, database, monkeypatch):
    """It is told from the store's own by what the server says, not by its name."""
    from standfast.store.postgres import foreign  # noqa: PLC0415 - only this test looks there

    monkeypatch.setattr(foreign.Facts, "store", property(lambda _self: "another"))
    with transaction.atomic():
        result = tasks.add.enqueue(7)
        Order.objects.create(number=1)
    assert stored(result.id) == [True]
    assert (Order.objects.count(), backend.alias, bool(database)) == (1, "default", True)


def test_an_async_view_enqueues_in_a_transaction(backend):
    """Django runs a transaction in a thread, and the relay of its commit on the loop that waits for it."""

    def place_order() -> str:
        with transaction.atomic():
            Order.objects.create(number=7)
            return str(tasks.add.enqueue(7).id)

    async def view() -> Any:
        placed = await sync_to_async(place_order)()
        at_once = await tasks.add.aenqueue(8)
        found = [await tasks.add.aget_result(each) for each in (placed, at_once.id)]
        await sync_to_async(djangos.forget_connection)()
        return [each.args for each in found]

    assert asyncio.run(view()) == [[7], [8]]
    assert backend.sf is default_task_backend.sf


def test_the_orms_connection_is_a_tx(backend):
    """Handlers and views of one's own enqueue beside the ORM, too."""
    sf = backend.sf
    with transaction.atomic():
        first = sf.enqueue_sync("default", {"by": "hand"}, tx=connection)
        second = sf.enqueue_sync("default", {"by": "name"}, tx=connections["default"])
    if connection.vendor == "sqlite":
        asyncio.run(task_store.store_for(backend._options).outbox("default").relay())  # noqa: SLF001 - as a worker does
    assert stored(first.id, second.id) == [True, True]
    with pytest.raises(ConfigurationError, match="atomic"):
        sf.enqueue_sync("default", {"by": "hand"}, tx=connection)


def test_a_prepared_job_is_stored_once(tmp_path):
    sf = Standfast(str(tmp_path / "queue.db"))
    prepared = sf.prepare("mail", {"to": "ann"})

    async def look() -> list[str]:
        assert await sf.status(prepared.id) is None
        await prepared.store()
        prepared.store_sync()
        found = [job.id for job in await sf.jobs()]
        await sf.close()
        return found

    assert asyncio.run(look()) == [prepared.id]


async def test_every_worker_relays_an_outbox_that_says_so(tmp_path):
    database = str(tmp_path / "shop.db")
    sf = Standfast(str(tmp_path / "queue.db"))
    sf.outbox(lambda: sqlite3.connect(database), every=0.01, with_workers=True)
    sf.handler("mail")(lambda job: job.payload)
    shop = sqlite3.connect(database)
    receipt = sf.enqueue_sync("mail", 7, tx=shop)
    shop.commit()
    shop.close()
    async with sf, sf.worker():
        assert (await arrived(sf, receipt.id)).result == 7
