"""Every look at an effect is kept, and shown with its job."""

from __future__ import annotations

import pytest

from standfast import Effect, Found, Job, Uncertain
from standfast.errors import NotVerified
from standfast.testing import drain
from standfast.testing.kit import InMemory
from tests.waiting import job_of


async def shown(sf: InMemory, job_id: str | None) -> list[tuple[str, str, object, int | None]]:
    """Give what is shown of the effects of a job, without the times."""
    found = (await job_of(sf, job_id)).effects
    assert [each["at"] for each in found] == sorted(each["at"] for each in found)
    return [(each["name"], each["verdict"], each["receipt"], each["attempt"]) for each in found]


async def test_every_look_is_shown_with_its_verdict_time_and_attempt(sf: InMemory) -> None:
    answers = [False, "partial", Found({"id": 7})]
    sf.queue("tickets", backoff=lambda _: 10)

    @sf.handler("tickets", replay="verify_first", effects=[Effect("ticket", lambda _job: answers.pop(0))])
    async def create(_job: Job) -> None:
        raise Uncertain("no answer")

    receipt = await sf.enqueue("tickets")
    for _ in range(4):
        await drain(sf)
        sf.clock.advance(10)
    assert (await job_of(sf, receipt.id)).warning == "post_write_recovery"
    assert await shown(sf, receipt.id) == [
        ("ticket", "absent", None, 2),
        ("ticket", "partial", None, 3),
        ("ticket", "verified", {"id": 7}, 4),
    ]


async def test_a_receipt_after_a_look_stands_beside_it(sf: InMemory) -> None:
    sf.queue("tickets", backoff=lambda _: 10)

    @sf.handler("tickets", replay="verify_first", effects=[Effect("ticket", lambda _job: False)])
    async def create(job: Job) -> None:
        async with job.effect("ticket") as effect:
            if job.attempt == 1:
                raise Uncertain("no answer")
            effect.record("T-1")

    receipt = await sf.enqueue("tickets")
    await drain(sf)
    assert await shown(sf, receipt.id) == [("ticket", "indeterminate", None, 1)]
    sf.clock.advance(10)
    await drain(sf)
    assert await shown(sf, receipt.id) == [("ticket", "absent", None, 2), ("ticket", "verified", "T-1", 2)]


async def test_a_look_after_a_call_that_timed_out_is_kept(sf: InMemory) -> None:
    """The reply says `queued`, and why: the look found nothing."""

    @sf.handler("tickets", replay="verify_first", effects=[Effect("ticket", lambda _job: False)])
    async def create(_job: Job) -> None:
        raise Uncertain("no answer")

    reply = await sf.run("tickets")
    assert reply["status"] == "queued"
    assert await shown(sf, reply["operation_id"]) == [("ticket", "absent", None, 1)]


async def test_a_look_that_refused_to_resolve_a_letter_is_kept(sf: InMemory) -> None:
    @sf.handler("tickets", replay="manual", effects=[Effect("ticket", lambda _job: False)])
    async def create(_job: Job) -> None:
        raise Uncertain("no answer")

    receipt = await sf.enqueue("tickets")
    await drain(sf)
    for _ in range(2):
        with pytest.raises(NotVerified):
            await sf.dead_letters.resolve(str(receipt.id), by="ann", reason="it is there")
        sf.clock.advance(60)
    assert [each[:2] for each in await shown(sf, receipt.id)] == [("ticket", "absent")] * 2


async def test_what_a_later_result_doubts_is_not_called_found(sf: InMemory) -> None:
    """An older look found it; its own handler could not any more."""
    sf.queue("tickets", backoff=lambda _: 10)

    @sf.handler("tickets", effects=[Effect("ticket", lambda _job: True)])
    async def create(job: Job) -> object:
        async with job.effect("ticket") as effect:
            if job.attempt == 1:
                raise Uncertain("no answer")
            if not effect.done:
                effect.record("T-1")
        return {"verified": {"ticket": "absent"}}

    receipt = await sf.enqueue("tickets")
    await drain(sf)
    sf.clock.advance(10)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert [each["verdict"] for each in job.effects] == ["verified", "indeterminate"]
    assert "Done already" not in await sf.explain(receipt.id)
