"""A worker that stops for a while: frozen past its lease it has lost its job, blocked or busy it has not."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from standfast import JobView, Standfast
from standfast.spine.claim_requests import ClaimRequest, ClaimResult
from standfast.store.requests import Request
from standfast.store.store import Store
from tests.faults import roles
from tests.faults.nursery import Child, Nursery, nursery, reported, until
from tests.faults.verdict import look


@pytest.fixture
def children() -> Iterator[Nursery]:
    with nursery() as warm:
        yield warm


def freeze(child: Child, path: Path) -> None:
    """Stop a process between its transactions: in one, it would keep everybody from writing until it is thawed."""

    def frozen() -> bool:
        child.send(signal.SIGSTOP)
        until(child.is_stopped)
        if lock_is_free(path):
            return True
        child.send(signal.SIGCONT)
        return False

    until(frozen)


def lock_is_free(path: Path) -> bool:
    with suppress(BlockingIOError, apsw.BusyError), path.with_name(f"{path.name}.turn").open() as baton:
        fcntl.flock(baton, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        return True
    return False


def enqueue(path: Path) -> str:
    async def call() -> str | None:
        async with Standfast(str(path)) as sf:
            return (await sf.enqueue("post")).id

    return str(asyncio.run(call()))


def job_of(path: Path, id_: str) -> JobView:
    async def call() -> JobView | None:
        async with Standfast(str(path)) as sf:
            return await sf.status(id_)

    job = asyncio.run(call())
    assert job is not None
    return job


def entered(place: Path, by: str) -> list[int]:
    """Give the tokens under which a worker entered its handler."""
    return [line["token"] for line in reported(place / "entered") if line["by"] == by]


def fenced(place: Path, by: str) -> bool:
    return any("landed nowhere" in line["message"] for line in reported(place / f"log-{by}"))


@pytest.mark.parametrize(
    ("thawed", "mode"),
    [
        ("while-the-other-runs", "plain"),
        ("after-the-other-ended", "async"),
        pytest.param("while-the-other-runs", "async", marks=pytest.mark.long),
        pytest.param("after-the-other-ended", "plain", marks=pytest.mark.long),
    ],
)
def test_a_worker_frozen_past_its_lease_ends_nothing(place, children, mode, thawed):
    path = place / "queue.db"
    frozen = children.spawn(roles.work_when_let, place, "frozen", mode)
    id_ = enqueue(path)
    until(lambda: entered(place, "frozen") == [1])
    freeze(frozen, path)
    children.spawn(roles.work_when_let, place, "other", "async")
    until(lambda: entered(place, "other") == [2])
    (place / "go-frozen").touch()
    if thawed == "while-the-other-runs":
        frozen.send(signal.SIGCONT)
        until(lambda: fenced(place, "frozen"))
        assert look(path)[0][id_].state == "running"
        (place / "go-other").touch()
        until(lambda: look(path)[0][id_].state == "completed")
    else:
        (place / "go-other").touch()
        until(lambda: look(path)[0][id_].state == "completed")
        frozen.send(signal.SIGCONT)
        until(lambda: fenced(place, "frozen"))
    job = job_of(path, id_)
    assert (job.state, job.attempts, job.result) == ("completed", 2, {"by": "other"})
    assert [(line.reason_code, line.possible_duplicate) for line in job.history] == [("worker_lost", True)]
    assert entered(place, "other") == [2]
    assert not fenced(place, "other")
    assert look(path)[1] == []


@pytest.mark.long
def test_a_handler_that_blocks_the_loop_keeps_its_lease(place, children):
    path = place / "queue.db"
    children.spawn(roles.work_when_let, place, "blocked", "blocking")
    id_ = enqueue(path)
    until(lambda: entered(place, "blocked") == [1])
    children.spawn(roles.work_when_let, place, "other", "async")
    blocked_since = time.monotonic()
    until(lambda: time.monotonic() > blocked_since + 2 * roles.LEASE)
    (place / "go-blocked").touch()
    until(lambda: look(path)[0][id_].state == "completed")
    job = job_of(path, id_)
    assert (job.attempts, job.result, job.history) == (1, {"by": "blocked"}, [])
    assert entered(place, "other") == []


@pytest.mark.long
async def test_a_job_claimed_while_the_loop_is_blocked_is_run_once(place, monkeypatch):
    ran: list[int] = []
    claim = Store.claim

    def claim_and_block(store: Store, order: ClaimRequest) -> Request[ClaimResult]:
        """Block the loop as some handler may, at the worst moment: for four heartbeats the answer waits."""
        asking = claim(store, order)
        asking.start()
        time.sleep(2)
        return asking

    async with Standfast(str(place / "queue.db")) as sf:
        sf.queue("post", lease=1.5)

        @sf.handler("post")
        async def post(job):
            ran.append(job.payload)

        await sf.enqueue("post", 1)
        monkeypatch.setattr(Store, "claim", claim_and_block)
        async with sf.worker(concurrency=4):
            receipt = await sf.enqueue("post", 2)
            await sf.wait(str(receipt.id), 20)
            jobs = await sf.jobs()
    assert sorted(ran) == [1, 2]
    assert [(job.attempts, job.deferrals) for job in jobs] == [(1, 0), (1, 0)]
