"""A table is locked for longer than a statement waits: an index is built, a table rewritten, a session forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from standfast import Standfast, StoreUnavailable
from tests.postgres import connect
from tests.waiting import ended, seen

WRITTEN_LAST = ("told", "counted")
"""The tables that the last statements of most transactions write: nobody waits for the answers to these."""


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    with connect(url) as beside, beside.transaction():
        beside.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


@pytest.mark.parametrize("table", WRITTEN_LAST)
async def test_a_job_that_ended_while_a_table_was_locked_is_completed(postgres_url, caplog, table):
    """It stayed `running` for as long as its worker lived, and health named nothing."""
    entered, going_on = asyncio.Event(), asyncio.Event()
    async with Standfast(postgres_url) as sf:

        @sf.handler("mail")
        async def mail(_job):
            entered.set()
            await going_on.wait()

        receipt = await sf.enqueue("mail")
        async with sf.worker():
            await entered.wait()
            with locked(postgres_url, table):
                going_on.set()
                await seen(lambda: "lock timeout" in caplog.text)
            job = await ended(sf, receipt.id)
    assert (job.state, job.attempts) == ("completed", 1)
    assert "cannot be written" not in caplog.text


@pytest.mark.parametrize("table", [*WRITTEN_LAST, "job"])
async def test_a_job_that_is_enqueued_while_a_table_is_locked_is_accepted_once_the_lock_is_gone(
    postgres_url, caplog, table
):
    async with Standfast(postgres_url) as sf:
        await sf.enqueue("mail")
        with locked(postgres_url, table):
            enqueueing = asyncio.ensure_future(sf.enqueue("mail"))
            await seen(lambda: "lock timeout" in caplog.text)
        assert (await enqueueing).outcome == "accepted"


async def test_a_call_that_is_stored_is_not_denied_when_nobody_can_look_at_it(postgres_url):
    """Whoever believed that nothing was written would call again."""
    async with Standfast(postgres_url) as other:
        other.handler("mail")(lambda _job: None)
        await other.enqueue("mail", delay=60)
        async with Standfast(postgres_url) as sf:
            waiting = asyncio.ensure_future(sf.run("mail", 1))
            [job] = await seen(lambda: other.jobs(queue="mail", view="queued"))
            with (
                locked(postgres_url, "job"),
                pytest.raises(StoreUnavailable, match=f"the call is stored as job {job.id}") as refused,
            ):
                await waiting
    assert not refused.value.definite
