"""Whatever a handler raises, its job ends: none is lost, none runs for good."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast import ConfigurationError
from standfast.testing import drain
from tests.core.raised import Escaping, hostile
from tests.waiting import job_of

RAISED: dict[str, BaseException] = {
    "exit": SystemExit(3),
    "generator exit": GeneratorExit(),
    "cancelled": asyncio.CancelledError(),
    "end of an iteration": StopIteration(1),
    "escaping": Escaping("x"),
    "escaping group": BaseExceptionGroup("two", [KeyboardInterrupt(), SystemExit()]),
    "half a pair": ValueError("\udcff\ud800\0"),
    "very long": ValueError("x" * 10_000_000),
    **hostile(),
}


def endless(_job: Any) -> Any:
    return endless(_job)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_whatever_a_handler_raises_its_job_ends(sf, kind):
    def raising(job: Any) -> None:
        if job.payload == "endless":
            endless(job)
        raise RAISED[job.payload]

    async def raising_async(job: Any) -> None:
        raising(job)

    sf.queue("mail", attempts=1)
    sf.handler("mail")(raising if kind == "plain" else raising_async)
    names = [*RAISED, "endless"]
    receipts = await sf.enqueue_many("mail", names)
    await drain(sf)
    ended = {name: await job_of(sf, receipt.id) for name, receipt in zip(names, receipts, strict=True)}
    assert {name: (job.state, job.attempts) for name, job in ended.items()} == dict.fromkeys(names, ("dead", 1))
    assert {job.failure and job.failure.landed for job in ended.values()} == {"maybe"}


async def test_a_dependency_that_no_store_can_be_asked_for_is_refused(sf):
    with pytest.raises(ConfigurationError, match="a dependency's name is printable"):
        await sf.queues.try_now("crm\0")
    assert await sf.queues.try_now("crm") is False
