"""The store's file is deleted under the processes that use it: nothing is acknowledged that nobody will find again."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from standfast import Standfast, StoreUnavailable, no_backoff
from standfast.outcome import Succeeded
from tests.store.suite import claim_one
from tests.store.suite import ended as settled
from tests.waiting import ended, job_of, seen
from tests.worker.inside import held, store_of


def remove(path: str) -> None:
    """Delete the file and what SQLite keeps beside it, as `rm queue.db*` does."""
    for file in Path(path).parent.glob("queue.db*"):
        if file.is_file():
            file.unlink()


async def test_what_is_acknowledged_after_the_removal_is_in_the_new_file(in_file, path, caplog):
    in_file.queue("mail", attempts=7)
    old = await in_file.enqueue("mail", 1)
    remove(path)
    new = await in_file.enqueue("mail", 2)
    assert new.outcome == "accepted"
    assert await in_file.status(old.id) is None
    assert f"{path} was removed while in use" in caplog.text
    await in_file.close()
    async with Standfast(path) as other:
        assert (await job_of(other, new.id)).payload == 2
        [issue] = [issue for issue in (await other.health())["issues"] if "removed" in issue]
        assert issue.startswith("the store's file was removed while in use, ")


async def test_whoever_follows_is_told_that_it_is_another_store(in_file, path):
    for number in range(3):
        await in_file.enqueue("mail", number)
    old = await in_file.reader()
    await old.more(0)
    remove(path)
    first = await in_file.enqueue("mail", 3)
    new = await in_file.reader()
    assert [notice.kind for notice in await old.more(0)] == ["gap"]
    second = await in_file.enqueue("mail", 4)
    for reader, jobs in ((old, [first.id, second.id]), (new, [second.id])):
        heard: list[str | None] = []
        while len(heard) < len(jobs):
            heard += [notice.job for notice in await reader.more(15)]
        assert heard == jobs


async def test_the_rules_are_in_force_in_the_new_file_too(in_file, path):
    in_file.queue("mail", attempts=7)
    await in_file.enqueue("mail", 1)
    remove(path)
    await in_file.enqueue("mail", 2)
    await in_file.enqueue("mail", 3)
    async with Standfast(path) as other:
        assert (await other.queues.describe())["mail"]["rules"].attempts == 7


async def test_reading_a_store_whose_file_is_gone_is_refused(in_file, path):
    receipt = await in_file.enqueue("mail", 1)
    await asyncio.gather(*(job_of(in_file, receipt.id) for _ in range(20)))  # so that each reader has it open
    remove(path)
    with pytest.raises(StoreUnavailable, match=r"cannot read .*queue\.db"):
        await in_file.status(receipt.id)


async def test_a_file_that_another_process_made_meanwhile_is_used(in_file, path, tmp_path):
    """Two processes then go by one clock: that of whoever made it, here a thousand seconds ahead."""
    await in_file.enqueue("mail", 1)
    async with Standfast(str(tmp_path / "other.db")) as other:
        elsewhere = await other.enqueue("mail", 2)
    with closing(sqlite3.connect(tmp_path / "other.db")) as changed:
        changed.execute("UPDATE clock SET offset = offset + 1000")
        changed.commit()
    before = store_of(in_file).now()
    remove(path)
    (tmp_path / "other.db").rename(path)
    here = await in_file.enqueue("mail", 3)
    assert [job.id for job in await in_file.jobs()] == [here.id, elsewhere.id]
    assert store_of(in_file).now() - before >= 1000


async def test_an_end_that_meets_the_removal_is_refused(in_file, path):
    """In the new file its number and token may be another job's."""
    await in_file.enqueue("mail", 1)
    claim = await claim_one(store_of(in_file))
    remove(path)
    with pytest.raises(StoreUnavailable, match="was removed while in use; nothing was written"):
        await settled(store_of(in_file), claim, Succeeded())


async def test_the_end_of_a_job_of_the_old_file_is_no_other_jobs(in_file, path, caplog):
    """Both have the same number and token: the first job of its file, claimed once."""
    in_file.queue("mail", backoff=no_backoff())
    go, ran = asyncio.Event(), list[int]()

    @in_file.handler("mail")
    async def handler(job):
        ran.append(job.payload)
        try:
            await (go.wait() if job.payload == 1 else asyncio.Event().wait())
        except asyncio.CancelledError:
            if job.payload == 2:
                raise
            await go.wait()

    async with in_file.worker(grace=0.1) as worker:
        old = await in_file.enqueue("mail", 1)
        await seen(lambda: ran == [1])
        remove(path)
        new = await in_file.enqueue("mail", 2)
        await seen(lambda: ran == [1, 2])
        go.set()
        await seen(lambda: f"the end of job {old.id}, complete, is written nowhere" in caplog.text)
        assert (await job_of(in_file, new.id)).state == "running"
        assert [running.claim.id for running in held(worker).values()] == [new.id]


async def test_a_worker_goes_on_in_the_new_file(in_file, path):
    @in_file.handler("mail")
    async def handler(job):
        return job.payload

    async with in_file.worker():
        assert (await ended(in_file, (await in_file.enqueue("mail", 1)).id)).result == 1
        remove(path)
        receipt = await in_file.enqueue("mail", 2)
        assert (await ended(in_file, receipt.id)).result == 2
