"""A host that says when to come back: its jobs wait until then unspent, those for other hosts go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast import fixed
from standfast.testing import drain
from tests.receiver import Receiver, Spot
from tests.waiting import failure_of, job_of


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Spot]:
    """Give a place at another host."""
    running = Receiver(tmp_path / "requests.jsonl").start()
    yield Spot(running, "/other")
    running.stop()


@pytest.mark.parametrize("status", [429, 503])
async def test_a_host_that_asks_to_wait_holds_back_its_own_jobs_and_no_others(app, spot, other, status):
    app.queue("feedback", destinations=["127.0.0.1"], backoff=fixed(1), attempts=1)
    busy = spot.url(status=f"{status},200", header="Retry-After:60")
    ids = [(await app.enqueue_http("feedback", "POST", busy, body={"n": n})).id for n in range(3)]
    elsewhere = (await app.enqueue_http("feedback", "POST", other.url(), body={})).id
    await app.worker(concurrency=1).run_due()
    assert (len(spot.requests), len(other.requests)) == (1, 1)
    assert (await job_of(app, elsewhere)).state == "completed"
    first, second = [await job_of(app, job_id) for job_id in ids[:2]]
    assert (first.attempts, first.deferrals, first.view) == (0, 1, "scheduled")
    assert (second.attempts, second.view) == (0, "parked")
    assert second.parked_on is not None
    assert second.parked_on.startswith("hold:feedback:http://127.0.0.1:")
    assert "asked to wait until 00:01:00 UTC" in await app.explain(second.id)
    app.clock.advance(60)
    await drain(app)
    assert [(await job_of(app, job_id)).state for job_id in ids] == ["completed"] * 3
    assert len(spot.requests) == 4


async def test_a_refusal_in_milliseconds_is_heard(app, spot):
    app.queue("feedback", destinations=["127.0.0.1"], attempts=1)
    receipt = await app.enqueue_http(
        "feedback", "POST", spot.url(status="429,200", header="retry-after-ms:2500"), body={}
    )
    await drain(app)
    job = await job_of(app, receipt.id)
    assert (job.attempts, job.history[0].delay) == (0, 2.5)


async def test_without_a_time_a_refusal_spends_an_attempt(app, spot):
    app.queue("feedback", destinations=["127.0.0.1"], attempts=1)
    receipt = await app.enqueue_http("feedback", "POST", spot.url(status="429"), body={})
    await drain(app)
    job = await job_of(app, receipt.id)
    assert (job.state, job.attempts, failure_of(job).cause) == ("dead", 1, "rate_limited")
