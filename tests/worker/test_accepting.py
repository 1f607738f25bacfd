"""Enqueueing from everywhere: a handler, a thread, code without a loop; and never waiting for good."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import dataclass

import pytest

from standfast import ConfigurationError, PayloadRejected, Receipt, Standfast, StoreUnavailable
from standfast.store.sqlite import sqlite_engine
from tests.waiting import ended, job_of
from tests.warm import run_warm
from tests.worker.outage import Outage


async def test_a_handler_may_enqueue_for_another(disk):
    @disk.handler("order")
    async def order(job):
        receipt = await disk.enqueue("invoice", {"of": job.id})
        return receipt.id

    @disk.handler("invoice")
    def invoice(job):
        return disk.enqueue_sync("thanks", {"of": job.payload["of"]}).id

    @disk.handler("thanks")
    async def thanks(job):
        return job.payload["of"]

    async with disk.worker():
        first = await ended(disk, (await order.enqueue()).id)
        second = await ended(disk, first.result)
        third = await ended(disk, second.result)
    assert third.result == first.id


async def test_a_store_may_be_named_by_a_path(tmp_path):
    path = tmp_path / "p.db"
    async with Standfast(path) as sf:
        await sf.enqueue("mail")
    assert path.exists()
    async with Standfast(f"sqlite:///{path}") as sf:
        assert len(await sf.jobs()) == 1
    with pytest.raises(ConfigurationError, match="named by a URL or a path, not by 5"):
        Standfast(5)  # type: ignore[arg-type]


def test_plain_code_without_a_loop_enqueues(url):
    sf = Standfast(url)
    receipt = sf.enqueue_sync("mail", {"to": "a@b.c"}, idempotency_key="k")
    again = sf.enqueue_sync("mail", {"to": "a@b.c"}, idempotency_key="k")
    assert receipt == Receipt(receipt.id, "accepted", "queued")
    assert again == Receipt(receipt.id, "duplicate", "queued")

    async def look() -> None:
        job = await job_of(sf, receipt.id)
        assert (job.state, job.payload) == ("queued", {"to": "a@b.c"})
        await sf.close()

    asyncio.run(look())


async def test_many_threads_enqueue_beside_the_loop(disk):
    kept: list[Receipt] = []

    def enqueue(number: int) -> None:
        kept.extend(disk.enqueue_sync("mail", [number, each]) for each in range(25))

    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    kept += await asyncio.gather(*(disk.enqueue("mail", number) for number in range(100)))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len({receipt.id for receipt in kept}) == 300
    for receipt in kept:
        assert (await job_of(disk, receipt.id)).state == "queued"


def test_what_the_main_program_does_not_wait_for_is_on_disk_all_the_same(url):
    """The one-line replacement of fire-and-forget, in a program that ends right after it."""
    code = "import sys; from standfast import Standfast; print(Standfast(sys.argv[1]).enqueue_sync('mail', 1).id)"
    done = run_warm([sys.executable, "-c", code, url], check=True, capture_output=True, text=True, timeout=30)

    async def look() -> None:
        async with Standfast(url) as sf:
            assert (await job_of(sf, done.stdout.strip())).payload == 1

    asyncio.run(look())


@pytest.mark.parametrize("sync", [True, False])
async def test_enqueue_gives_up_in_time_when_the_store_is_locked(in_file, path, monkeypatch, sync):
    monkeypatch.setattr("standfast.store.store.PATIENCE", 0.3)
    await in_file.open()
    outage = await asyncio.to_thread(Outage, path)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="nothing was written") as refused:
        await (asyncio.to_thread(in_file.enqueue_sync, "mail", 1) if sync else in_file.enqueue("mail", 1))
    assert refused.value.definite
    assert time.monotonic() - began < 5
    await asyncio.to_thread(outage.end)
    assert (await in_file.enqueue("mail", 2)).outcome == "accepted"
    assert [job.payload for job in await in_file.jobs()] == [2]


async def test_the_first_enqueue_gives_up_in_time_when_the_store_is_locked(path, in_file, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "LONGEST_OPENING", 0.5)
    async with Standfast(path):
        pass
    outage = await asyncio.to_thread(Outage, path)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as refused:
        await in_file.enqueue("mail", 1)
    assert refused.value.definite
    assert time.monotonic() - began < 10
    await asyncio.to_thread(outage.end)
    assert (await in_file.enqueue("mail", 2)).outcome == "accepted"


def shared(depth: int) -> list[object]:
    """Give lists that share lists: tiny in memory, endless when written out."""
    found: list[object] = [1]
    for _ in range(depth):
        found = [found, found]
    return found


async def test_a_payload_that_would_unfold_without_end_is_refused_at_once(sf):
    began = time.monotonic()
    with pytest.raises(PayloadRejected, match="nothing was written"):
        await sf.enqueue("mail", shared(60))
    assert time.monotonic() - began < 5


@dataclass
class Sealed:
    """A payload with a field nobody can write down."""

    seal: object


async def test_a_payload_with_a_field_json_cannot_say_is_refused_by_name(sf):
    with pytest.raises(PayloadRejected):
        await sf.enqueue("mail", Sealed(threading.Lock()))


@pytest.mark.parametrize("queue", ["hooks", "http"])
async def test_a_request_to_an_address_inside_is_refused_whatever_its_queue_is_called(sf, queue):
    with pytest.raises(PayloadRejected):
        await sf.enqueue_http(queue, "POST", "http://169.254.169.254/latest")
    assert await sf.jobs(queue=queue) == []
