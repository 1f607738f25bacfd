"""Zero dropped events (seed 000): fourteen fire-and-forget sites, their services down, and nothing lost or silent.

Before: `asyncio.create_task(deliver(...))` inside `except Exception: pass`. After: `await sf.enqueue(...)`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from standfast import Standfast, exponential
from standfast.testing import FrozenClock, drain, memory
from standfast.testing.kit import InMemory
from tests.waiting import failure_of, job_of

QUEUES: dict[str, dict[str, Any]] = {
    "analytics_ingest": {"attempts": 5, "backoff": exponential(base=2)},
    "learning_capture": {"attempts": 3, "backoff": exponential(base=1)},
    "identity_provision": {"attempts": 10, "backoff": exponential(base=5, cap=600)},
    "feedback": {"attempts": 5, "backoff": exponential(base=2)},
    "mesh_keys": {"attempts": 10, "backoff": exponential(base=5, cap=600)},
    "security_notify": {"attempts": 5, "backoff": exponential(base=3)},
    "artifact_delivery": {},
    "conversation_index": {},
    "graph_write": {},
    "session_lifecycle": {},
    "knowledge_ingest": {},
}
"""Eleven queues, each tuned for its own way to fail."""

SITES: list[tuple[str, dict[str, Any]]] = [
    ("feedback", {"rating": "down", "response": 17}),
    ("analytics_ingest", {"outcome": "answered"}),
    ("learning_capture", {"signal": "correction"}),
    ("conversation_index", {"do": "index"}),
    ("conversation_index", {"do": "crystallize"}),
    ("artifact_delivery", {"turns": [1, 2], "session_id": "s-1", "prompt": "draw"}),
    ("graph_write", {"tool": "search"}),
    ("identity_provision", {"user": "ann", "plan": "pro"}),
    ("security_notify", {"badge": "anomaly"}),
    ("security_notify", {"badge": "revoked"}),
    ("mesh_keys", {"node": "n-1"}),
    ("knowledge_ingest", {"session_id": "s-1"}),
    ("session_lifecycle", {"session_id": "s-1", "do": "promote"}),
    ("graph_write", {"session_id": "s-1", "do": "flush"}),
]
"""The fourteen places that fired and forgot."""


class Services:
    """Everything downstream: down until a moment, and keeping what arrives once per idempotency key."""

    def __init__(self, clock: FrozenClock, *, down_for: float) -> None:
        self._clock = clock
        self.up_at = clock.wall() + down_for
        self.received: dict[str, Any] = {}
        self.calls: Counter[str] = Counter()

    async def post(self, job: Any) -> dict[str, bool]:
        self.calls[job.id] += 1
        if self._clock.wall() < self.up_at:
            raise ConnectionRefusedError(f"{job.queue} is down")
        self.received[job.idempotency_key] = job.payload
        return {"success": True}


def application(sf: Standfast, services: Services) -> None:
    for name, rules in QUEUES.items():
        sf.queue(name, **rules)
        sf.handler(name)(services.post)


async def pass_time(sf: InMemory, seconds: int) -> None:
    """Let a worker run every second."""
    for _ in range(seconds):
        await drain(sf)
        sf.clock.advance(1)
    await drain(sf)


@pytest.fixture
async def sf():
    async with memory() as store:
        yield store


async def test_every_site_survives_its_service_being_down_for_a_while(sf):
    services = Services(sf.clock, down_for=25)
    application(sf, services)
    sites = [site for site in SITES if site[0] != "learning_capture"]
    receipts = [await sf.enqueue(queue, payload) for queue, payload in sites]
    assert {receipt.outcome for receipt in receipts} == {"accepted"}, "the user is answered while everything is down"
    await pass_time(sf, 24)
    assert services.received == {}
    assert (await sf.health())["total_dead_letter"] == 0
    await pass_time(sf, 60)
    jobs = [await job_of(sf, receipt.id) for receipt in receipts]
    assert [job.state for job in jobs] == ["completed"] * len(sites)
    assert services.received == {job.id: payload for job, (_, payload) in zip(jobs, sites, strict=True)}


async def test_what_runs_out_of_attempts_has_a_path_to_visibility(sf):
    """Learning capture tries three times within three seconds, so an outage of an hour ends it: as a letter, whole."""
    sf.queue("learning_capture", **QUEUES["learning_capture"], dead_warning=0)
    services = Services(sf.clock, down_for=3600)
    sf.handler("learning_capture")(services.post)
    receipt = await sf.enqueue("learning_capture", {"signal": "correction"})
    await pass_time(sf, 5)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.reason, job.attempts) == ("dead", "max_attempts", 3)
    assert job.payload == {"signal": "correction"}
    assert failure_of(job).message.startswith("learning_capture is down (at ")
    assert [line.reason_code for line in job.history] == ["dependency_unavailable"] * 3
    health = await sf.health()
    assert (health["status"], health["total_dead_letter"]) == ("degraded", 1)
    assert "learning_capture: 1 dead letter" in health["issues"]


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("feedback", [2, 4, 8, 16]),
        ("learning_capture", [1, 2]),
        ("security_notify", [3, 6, 12, 24]),
        ("identity_provision", [5, 10, 20, 40, 80, 160, 320, 600, 600]),
        ("mesh_keys", [5, 10, 20, 40, 80, 160, 320, 600, 600]),
        ("artifact_delivery", [5, 10, 20, 40, 80, 160, 300]),
    ],
)
async def test_each_queue_retries_as_it_is_configured(sf, queue, expected):
    """The first attempt counts, so five attempts wait four times; jitter takes up to a tenth off."""
    services = Services(sf.clock, down_for=1e6)
    application(sf, services)
    receipt = await sf.enqueue(queue)
    for _ in range(10):
        await drain(sf)
        sf.clock.advance(600)
    job = await job_of(sf, receipt.id)
    waits = [line.delay or 0 for line in job.history[:-1]]
    assert job.state == "dead"
    assert len(waits) == len(expected)
    assert all(wanted * 0.9 <= wait <= wanted for wait, wanted in zip(waits, expected, strict=True))


async def test_a_reply_that_was_lost_does_not_count_twice(sf):
    """Analytics took the feedback and its answer got lost: the repeat brings the same key, and is known there."""
    services = Services(sf.clock, down_for=0)

    async def post(job: Any) -> None:
        await services.post(job)
        if job.attempt == 1:
            raise ConnectionResetError("the reply was lost")

    sf.queue("feedback", **QUEUES["feedback"])
    sf.handler("feedback")(post)
    for _ in range(3):  # the user clicks three times
        receipt = await sf.enqueue("feedback", {"rating": "down"}, idempotency_key="feedback_17")
    await pass_time(sf, 5)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.attempts) == ("completed", 2)
    assert [(line.landed, line.possible_duplicate) for line in job.history] == [("maybe", True)]
    assert services.received == {"feedback_17": {"rating": "down"}}
    assert services.calls == {receipt.id: 2}


async def test_a_queue_that_backs_up_is_told_before_anything_is_lost(sf):
    services = Services(sf.clock, down_for=3600)
    application(sf, services)
    await sf.enqueue_many("identity_provision", [{"user": n} for n in range(101)])
    health = await sf.health()
    assert (health["status"], health["total_pending"]) == ("degraded", 101)
    assert "identity_provision: 101 pending (backed up)" in health["issues"]


async def test_one_service_that_is_down_does_not_hold_up_the_others(sf):
    services = Services(sf.clock, down_for=0)
    application(sf, services)

    async def hopeless(_job: Any) -> None:
        raise ConnectionRefusedError

    sf.queue("billing")
    sf.handler("billing")(hopeless)
    await sf.enqueue_many("billing", list(range(50)))
    receipts = [await sf.enqueue(queue, payload) for queue, payload in SITES]
    await drain(sf)
    assert {(await job_of(sf, receipt.id)).state for receipt in receipts} == {"completed"}
