"""A program that declares a handler less strictly than its workers do does not make them repeat it."""

from __future__ import annotations

from standfast import Standfast


async def test_a_producer_with_a_stub_does_not_take_manual_from_a_running_worker(disk, url):
    ran = []

    @disk.handler("mail", replay="manual")
    async def mail(job):
        ran.append(job.payload)
        raise RuntimeError("the answer never came")

    async with disk.worker(), Standfast(url) as producer:
        producer.handler("mail")(lambda _job: None)
        receipt = await producer.enqueue("mail", {"to": "ann"})
        job = await disk.wait(receipt.id, 30)
    assert (job.state, job.failure.reason_code, ran) == ("dead", "unknown_commit_state", [{"to": "ann"}])
