"""A disk that fills up: new work is refused first, then nothing is started, while ends are still written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from standfast import Permanent, Standfast, StoreUnavailable
from standfast.clock import SystemClock
from standfast.job import NewJob
from standfast.store import scripts
from standfast.store.sqlite import engine
from standfast.store.sqlite.engine import SqliteEngine
from standfast.store.sqlite.files import Files
from standfast.store.store import ROOM_TO_ACCEPT, ROOM_TO_CLAIM
from tests.faults.faulty import FailAt, underneath
from tests.faults.verdict import look, read

PATIENCE = 20.0


class Free:
    """The free bytes that the store is told of."""

    def __init__(self) -> None:
        self.bytes = 1 << 40

    def __call__(self, _files: Files) -> int:
        return self.bytes


@pytest.fixture
def free(monkeypatch) -> Free:
    free = Free()
    monkeypatch.setattr(Files, "free_bytes", free)
    return free


class Post:
    """A queue whose handlers end when they are let."""

    def __init__(self, sf: Standfast) -> None:
        self.sf = sf
        self.entered: list[str] = []
        self.let_go = asyncio.Event()
        sf.handler("post")(self._run)

    async def _run(self, job):
        self.entered.append(job.payload)
        await self.let_go.wait()
        if job.payload == "bad":
            raise Permanent("refused")
        return {"sent": True}


@pytest.fixture
async def post(place, free) -> AsyncIterator[Post]:
    async with Standfast(str(place / "queue.db")) as sf:
        yield Post(sf)


async def until(fact) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)


async def test_low_disk_refuses_new_work_before_anything_is_written(post, free, place):
    free.bytes = ROOM_TO_ACCEPT - 1
    with pytest.raises(StoreUnavailable, match=r"disk is low .* nothing was written: free some space") as refusal:
        await post.sf.enqueue("post")
    assert refusal.value.definite
    with pytest.raises(StoreUnavailable, match="disk is low") as refusal:
        await asyncio.to_thread(post.sf.enqueue_sync, "post")
    assert refusal.value.definite
    assert look(place / "queue.db") == ({}, [])
    health = await post.sf.health()
    assert any("disk" in issue for issue in health["issues"])
    free.bytes = ROOM_TO_ACCEPT
    assert (await post.sf.enqueue("post")).outcome == "accepted"


async def test_with_less_disk_nothing_more_is_started_and_what_runs_still_ends(post, free):
    good, bad = [await post.sf.enqueue("post", payload) for payload in ("good", "bad")]
    later = await post.sf.enqueue("post", "later", delay=0.3)
    async with post.sf.worker():
        await until(lambda: sorted(post.entered) == ["bad", "good"])
        free.bytes = ROOM_TO_CLAIM - 1
        post.let_go.set()
        ended = [await post.sf.wait(receipt.id, PATIENCE) for receipt in (good, bad)]
        assert [(job.state, job.reason) for job in ended] == [("completed", None), ("dead", "handler_refused")]
        await until(lambda: post.sf.clock.elapsed() > since + 0.6 if (since := due_since[0]) else False)
