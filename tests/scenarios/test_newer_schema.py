"""A newer version of standfast changes the store under a process that runs an older one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing

import apsw
import pytest

from standfast import Standfast
from standfast.errors import SchemaTooNew
from standfast.store.migrations import migrations
from tests.postgres import connect
from tests.waiting import ended, job_of, seen

Migrate = Callable[[int, int], None]


def set_schema(url: str, version: int, readable_by: int) -> None:
    """Do what the last step of a migration does."""
    if url.startswith("postgres"):
        with connect(url) as other:
            other.execute("UPDATE schema SET version = %s, readable_by = %s", (version, readable_by))
    else:
        with closing(apsw.Connection(url)) as file:
            file.execute("UPDATE schema SET version = ?, readable_by = ?", (version, readable_by))


def newest(url: str) -> int:
    return migrations("postgres" if url.startswith("postgres") else "sqlite")[-1].number


@pytest.fixture
def upgrade(url) -> Iterator[Callable[..., None]]:
    """Bring the store to a schema of the future, which this library may still read, or not."""
    known = newest(url)

    def migrate(*, readable: bool) -> None:
        set_schema(url, known + 2, known if readable else known + 1)

    yield migrate
    set_schema(url, known, known)


async def test_a_process_that_has_become_too_old_stops_writing_at_once_and_says_what_to_do(disk, url, upgrade):
    before = await disk.enqueue("mail", "before")
    upgrade(readable=False)
    with pytest.raises(
        SchemaTooNew, match=r"nothing was written: upgrade standfast here and restart this process"
    ) as no:
        await disk.enqueue("mail", "after")
    assert no.value.definite
    with pytest.raises(SchemaTooNew):
        await asyncio.to_thread(disk.enqueue_sync, "mail", "after")
    with pytest.raises(SchemaTooNew):
        await disk.jobs()
    calls: list[str] = []
    receipt = await disk.enqueue("mail", otherwise=lambda: calls.append("direct"))
    assert (receipt.outcome, calls) == ("fallback", ["direct"])
    health = await disk.health()
    assert health["status"] == "degraded"
    assert "a newer version of standfast has changed" in health["issues"][0]
    set_schema(url, newest(url), newest(url))
    assert [job.id for job in await disk.jobs()] == [before.id]


async def test_an_upgrade_that_the_older_version_can_read_lets_it_go_on(disk, upgrade):
    @disk.handler("mail")
    async def mail(job):
        return job.payload

    await disk.open()
    upgrade(readable=True)
    async with disk.worker():
        assert (await ended(disk, (await disk.enqueue("mail", 7)).id)).result == 7


async def test_what_ran_during_the_upgrade_is_left_to_the_newer_version(disk, url, upgrade, caplog):
    go, ran = asyncio.Event(), list[str]()

    @disk.handler("mail")
    async def mail(job):
        ran.append(job.id)
        await go.wait()

    async with disk.worker(grace=1):
        receipt = await disk.enqueue("mail")
        await seen(lambda: ran)
        upgrade(readable=False)
        go.set()
        await seen(lambda: f"the end of job {receipt.id}, complete, cannot be written" in caplog.text)
    set_schema(url, newest(url), newest(url))
    assert (await job_of(disk, receipt.id)).state == "running", "it lapses, and the newer version decides what then"


async def test_a_process_that_must_connect_anew_says_the_same(disk, upgrade):
    await disk.enqueue("mail")
    upgrade(readable=False)
    disk._store._engine._drop_connection()  # noqa: SLF001 - as an outage does
    with pytest.raises(SchemaTooNew):
        await disk.enqueue("mail")


async def test_a_transaction_of_the_callers_is_refused_too(used_postgres_url):
    url = used_postgres_url
    async with Standfast(url) as sf:
        await sf.enqueue("mail")
        set_schema(url, newest(url) + 1, newest(url) + 1)
        with connect(url) as theirs:
            theirs.execute("BEGIN")
            with pytest.raises(SchemaTooNew):
                await sf.enqueue("mail", tx=theirs)
    set_schema(url, newest(url), newest(url))
