"""A worker is killed or frozen between an effect and its end: what happens to the effect, under every replay mode."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import Standfast
from tests.receiver import Receiver
from tests.waiting import effects_of, ended, failure_of, job_of, seen
from tests.warm import Warm
from tests.worker.acting import MODES
from tests.worker.processes import ROOT, Log, environment

ACTING = Path(__file__).with_name("acting.py")


@pytest.fixture
def received(tmp_path: Path) -> Iterator[Receiver]:
    """Give a receiver process that writes every request down before it answers."""
    receiver = Receiver(tmp_path / "received.jsonl").start()
    yield receiver
    receiver.stop()


def at(receiver: Receiver, tmp_path: Path) -> dict[str, str]:
    """Give what a worker process must know of the receiver."""
    return {"receiver": f"http://127.0.0.1:{receiver.port}", "received": str(tmp_path / "received.jsonl")}


class Actor(Warm):
    """A worker process that acts on the world."""

    def __init__(self, url: str, log: Log, **settings: Any) -> None:
        given = msgspec.json.encode(settings).decode()
        paths = f"{ROOT}:{environment()['PYTHONPATH']}"
        command = [sys.executable, str(ACTING), url, str(log.path), given]
        super().__init__(command, env={**environment(), "PYTHONPATH": paths}, stderr=subprocess.DEVNULL)


@contextmanager
def actor(url: str, log: Log, **settings: Any) -> Iterator[Actor]:
    running = Actor(url, log, **settings)
    try:
        yield running
    finally:
        running.kill()
        running.wait(10)


async def test_killed_between_an_effect_and_the_end_of_its_job(disk, url, log, received, tmp_path):
    """One kill, a job of each mode before its receipt is on disk, and one after; then another worker goes on.

    Before: replay repeats and said so before it did, what is verified first is found and its handler goes on behind it,
    a person decides about the rest. After: the ledger knows, nothing is repeated in any mode, and handlers go on.
    """
    ids = {}
    for mode, die in product(MODES, ("inside", "after")):
        ids[mode, die] = (await disk.enqueue(mode, {"name": f"{mode}-{die}", "die": die})).id
    world = at(received, tmp_path)
    with actor(url, log, together=len(ids), **world) as first:
        assert await asyncio.to_thread(first.wait, 20) == -signal.SIGKILL
    with actor(url, log, **world):
        jobs = {what: await ended(disk, job_id) for what, job_id in ids.items()}
    for what, job in jobs.items():
        acts = len(received.requests(f"/{'-'.join(what)}"))
        assert (what, acts) == (what, 2 if what == ("replay", "inside") else 1)
        told = (job.history[0].landed, job.history[0].possible_duplicate)
        assert (what, told) == (what, ("maybe", what[0] == "replay") if what[1] == "inside" else ("no", False))
    unknown = {"name": "mark", "verdict": "verified", "receipt": None}
    assert effects_of(jobs["verify_first", "inside"]) == [unknown]
    for mode in MODES:
        assert effects_of(jobs[mode, "after"]) == [{**unknown, "receipt": 1}]
    assert [jobs["replay", die].result for die in ("inside", "after")] == ["by attempt 2", "by attempt 1"]
    for die, receipt in (("inside", None), ("after", 1)):
        found = jobs["verify_first", die]
        assert (found.state, found.warning, found.result) == ("completed", None, f"by attempt {receipt}")
        assert len(log.lines("start", f"verify_first-{die}")) == 2
    assert [failure_of(jobs["manual", die]).reason_code for die in ("inside", "after")] == [
        "unknown_commit_state",
        "worker_lost",
    ]


async def frozen(disk: Standfast, worker: Actor) -> None:
    """Stop a process between its transactions: in one, it would keep others from writing."""

    async def stopped() -> bool:
        worker.send_signal(signal.SIGSTOP)
        try:
            await asyncio.wait_for(disk.enqueue("nobody"), 1.0)
        except TimeoutError:
            worker.send_signal(signal.SIGCONT)
            return False
        return True

    await seen(stopped)


async def test_frozen_past_its_lease_and_thawed(disk, url, log, received, tmp_path):
    """Frozen before an effect, its intent is refused and it does not act; within one, its receipt comes too late."""
    go = tmp_path / "go"
    before, inside = [
        (await disk.enqueue("replay", {"name": where, where: str(go)})).id for where in ("before", "inside")
    ]

    async def runs() -> bool:
        return len(log.lines("start")) == 2 and bool((await job_of(disk, inside)).effects)

    world = at(received, tmp_path)
    with actor(url, log, **world) as slow:
        await seen(runs)
        await frozen(disk, slow)
        with actor(url, log, **world):
            for job in [await ended(disk, job_id) for job_id in (before, inside)]:
                assert (job.state, job.result) == ("completed", "by attempt 2")
                assert [line.possible_duplicate for line in job.history] == [True]
            go.touch()
            slow.send_signal(signal.SIGCONT)
            # It drains only once its handlers have ended, whatever they met.
            slow.terminate()
            assert await asyncio.to_thread(slow.wait, 20) == 0
    assert [len(received.requests(f"/{name}")) for name in ("before", "inside")] == [1, 2]
    for job in [await job_of(disk, job_id) for job_id in (before, inside)]:
        assert (job.state, job.result) == ("completed", "by attempt 2")
        assert effects_of(job) == [{"name": "mark", "verdict": "verified", "receipt": 2}]
    assert [line.reason_code for line in (await job_of(disk, before)).history] == ["worker_lost"]
    lost, late = (await job_of(disk, inside)).history
    assert (lost.reason_code, late.reason_code, late.attempt) == ("worker_lost", "late_receipt", 1)
    assert "with the receipt 1;" in (late.message or "")
