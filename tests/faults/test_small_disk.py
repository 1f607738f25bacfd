"""A real file system that is nearly full: what was accepted there is claimed, run and ended without freeing space."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from standfast import Permanent, Standfast
from standfast.errors import LowDisk
from standfast.store.room import ROOM_TO_ACCEPT, ROOM_TO_END
from tests.worker.inside import held

CALLERS = 16
PATIENCE = 60.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 160 MB, as only root can."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=160m", "standfast-test", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)  # noqa: S607


def free_bytes(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


@pytest.fixture
async def sf(small_disk) -> AsyncIterator[Standfast]:
    async with Standfast(str(small_disk / "queue.db")) as sf:
        yield sf


async def accepted_until_refused(enqueue: Callable[[], Awaitable[int]]) -> int:
    """Enqueue from many callers at once until each is refused; give how many jobs were accepted."""
    accepted = 0
    refusals: list[BaseException] = []

    async def call() -> None:
        nonlocal accepted
        while True:
            [answer] = await asyncio.gather(enqueue(), return_exceptions=True)
            if isinstance(answer, BaseException):
                refusals.append(answer)
                return
            accepted += answer

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(call() for _ in range(CALLERS)))
    for refusal in refusals:
        assert isinstance(refusal, LowDisk)
        assert refusal.definite
        assert "nothing was written: free some space, then call again" in str(refusal)
    return accepted


async def one(sf: Standfast) -> int:
    await sf.enqueue("post", "x" * 100_000)
    return 1


async def bulk(sf: Standfast) -> int:
    return len(await sf.enqueue_many("post", ["x" * 100_000] * 40))


async def workflow(sf: Standfast) -> int:
    flow = sf.workflow("big")
    for number in range(20):
        flow.step(f"step {number}", "post", "x" * 100_000)
    await flow.start()
    return 20


async def run_all(sf: Standfast, total: int) -> dict[str, int]:
    """Run a worker until every job has ended; give how many ended how."""
    async with asyncio.timeout(PATIENCE), sf.worker(concurrency=64):
        while True:
            counters: dict[str, int] = (await sf.stats())["counters"]
            if counters.get("completed", 0) + counters.get("dead_letter", 0) == total:
                return counters
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("enqueue", "taken"), [(one, 0), (bulk, 60 << 20), (workflow, 60 << 20)])
async def test_a_burst_leaves_room_to_finish_all_that_was_accepted(sf, small_disk, enqueue, taken):
    (small_disk / "somebody else's").write_bytes(bytes(taken))
    total = await accepted_until_refused(lambda: enqueue(sf))
    assert total > 10
    assert free_bytes(small_disk) >= ROOM_TO_ACCEPT

    @sf.handler("post")
    async def post(job):
        if int(job.id[-1], 36) % 2:
            raise Permanent("the receiver does not exist")
        return {"sent": True}

    ends = await run_all(sf, total)
    assert ends["completed"] > 0
    assert ends["dead_letter"] > 0
    assert (await sf.stats())["total_pending"] == 0


async def test_a_call_that_finds_the_disk_low_goes_to_its_fallback(sf, small_disk):
    await accepted_until_refused(lambda: one(sf))
    calls: list[str] = []
    receipt = await sf.enqueue("post", "x" * 100_000, otherwise=lambda: calls.append("direct"))
    assert (receipt.outcome, calls) == ("fallback", ["direct"])
    with pytest.raises(LowDisk):
        await asyncio.to_thread(sf.enqueue_sync, "post", "x" * 100_000)
    assert free_bytes(small_disk) >= ROOM_TO_ACCEPT


async def test_no_job_starts_whose_result_would_not_fit(sf, small_disk, caplog):
    """Each result takes nearly a MiB, and there is room for a few of them; what cannot be recorded is not started."""
    total = await accepted_until_refused(lambda: one(sf))
    started = 0

    @sf.handler("post")
    async def post(_job):
        nonlocal started
        started += 1
        return "y" * 1_000_000

    async with sf.worker(concurrency=64) as worker:
        async with asyncio.timeout(PATIENCE):
            while not refused_claims(caplog) or held(worker):  # noqa: ASYNC110 - no event tells of either
                await asyncio.sleep(0.05)
        stats = await sf.stats()
        assert stats["counters"]["completed"] == started
        assert 0 < started < total
        assert stats["total_pending"] == total - started
        assert free_bytes(small_disk) >= ROOM_TO_END


def refused_claims(caplog) -> int:
    return sum("nothing can be claimed now: the disk is low" in record.getMessage() for record in caplog.records)
