"""A dependency is away for longer than all attempts of a job: three worker processes know it, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.receiver import Receiver
from tests.waiting import job_of, seen
from tests.worker.processes import children


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Receiver]:
    """Give a receiver that is not there yet: whoever calls is refused."""
    found = Receiver(tmp_path / "requests.jsonl").start()
    found.stop()
    yield found
    found.stop()


async def test_an_outage_is_known_to_all_processes_and_spends_nothing(disk, url, log, away):
    """Three processes, one breaker: each job is tried once at most, then only probes go out; nothing is lost."""
    post = {
        "attempts": 3,
        "breaker": {"failures": 3, "open_for": 0.1},
        "destinations": ["127.0.0.1"],
        "wait": 0.05,
    }
    with children(url, log, 3, rules={"post": post}, concurrency=4):
        disk.queue("post", **{name: value for name, value in post.items() if name != "wait"})
        url_ = f"http://127.0.0.1:{away.port}/crm"
        ids = [(await disk.enqueue_http("post", "PUT", url_, body={"n": n})).id for n in range(30)]

        async def probed() -> bool:
            counters = (await disk.stats())["counters"]
            return bool(counters.get("given_back", 0) >= 2)

        await seen(probed)
        jobs = [await job_of(disk, job_id) for job_id in ids]
        assert {job.state for job in jobs} <= {"queued", "running"}
        assert max(job.attempts for job in jobs) <= 2
        issues = (await disk.health())["issues"]
        assert [issue for issue in issues if "has not answered" in issue]
        assert any(gate["kind"] == "breaker" for gate in (await disk.stats())["gates"])
        away.start()
        ended = await asyncio.gather(*(disk.wait(job_id, 30) for job_id in ids))
    assert Counter(job.state for job in ended) == {"completed": 30}
    assert len(away.requests()) == 30
