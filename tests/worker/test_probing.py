"""A retry that waits for the dependency's health check. Capability 50."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from standfast import ConfigurationError, Permanent, UnknownJob, exponential
from standfast.testing import drain
from standfast.wings.jobs import scripts as operations_scripts
from standfast.wings.jobs import verbs as operations
from tests.core.misbehaving import misbehaving
from tests.store.suite import claim_one
from tests.waiting import job_of
from tests.worker.inside import store_of

PATIENCE = 30.0
"""Far more than it takes: what is waited for comes."""


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "PAUSES", exponential(base=0.001, cap=0.001))


def saying(*answers: object) -> Callable[[], Any]:
    """Make a probe that gives these answers in turn, and no other; `left` are those to come."""
    left = list(answers)

    def probe() -> Any:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    vars(probe)["left"] = left
    return probe


async def scheduled(sf: Any) -> str:
    return str((await sf.enqueue("mail", {}, delay=3600)).id)


async def dead(sf: Any) -> str:
    @sf.handler("mail")
    async def mail(_job):
        raise Permanent("no")

    receipt = await sf.enqueue("mail", {})
    await drain(sf)
    return str(receipt.id)


@pytest.mark.parametrize("no", [False, (False, "down"), "no", RuntimeError("down"), ExceptionGroup("two", [OSError()])])
async def test_the_job_is_due_when_the_probe_says_yes(sf, no):
    job = await scheduled(sf)
    probe = saying(no, no, 1)
    reply = await sf.retry(job, probe=probe, timeout=PATIENCE)
    assert (reply["status"], "probe" in reply, vars(probe)["left"]) == ("queued", False, [])
    assert (await job_of(sf, job)).view == "queued"


async def test_a_letter_is_replayed_when_the_probe_says_yes(sf):
    job = await dead(sf)
    states = []

    async def probe() -> bool:
        states.append((await job_of(sf, job)).state)
        return len(states) == 2

    await sf.retry(job, probe=probe, timeout=PATIENCE)
    found = await job_of(sf, job)
    assert (states, found.state, found.replays) == (["dead"] * 2, "queued", 1)


@pytest.mark.parametrize(
    ("no", "why"),
    [(False, "it said False"), (ValueError("the\x1b[31m pool"), "ValueError: the� pool"), (None, "it said None")],
)
async def test_while_it_says_no_nothing_is_touched(sf, no, why):
    job = await scheduled(sf)
    before = await job_of(sf, job)
    reply = await sf.retry(job, probe=saying(no), timeout=0)
    assert (reply["status"], reply["probe"]) == ("queued", why)
    assert reply["hint"].startswith(f"It was not retried: the probe still says no ({why})")
    assert await job_of(sf, job) == before


async def test_a_probe_that_hangs_says_no(sf, monkeypatch):
    monkeypatch.setattr(operations, "LEAST_ANSWER", 0.01)
    over = threading.Event()
    for probe in (over.wait, asyncio.Event().wait):
        reply = await sf.retry(await scheduled(sf), probe=probe, timeout=0)
        assert reply["probe"] == "no answer within 0.01 s"
    over.set()


async def test_a_url_says_yes_with_2xx(sf):
    with misbehaving() as receiver:
        job = await scheduled(sf)
        for trouble, why in {"busy": "HTTP 503", "loop": "HTTP 302", "refused": "ConnectError: "}.items():
            reply = await sf.retry(job, probe=receiver.urls[trouble], timeout=0)
            assert reply["probe"].startswith(why)
        assert (await job_of(sf, job)).view == "scheduled"
        reply = await sf.retry(job, probe=receiver.urls["fine"], timeout=0)
        assert "probe" not in reply
        assert (await job_of(sf, job)).view == "queued"


async def test_it_stops_waiting_once_the_job_went_on_without_it(sf):
    job = await scheduled(sf)

    async def probe() -> bool:
        await sf.cancel(job)
        return False

    reply = await sf.retry(job, probe=probe, timeout=PATIENCE)
    assert (reply["status"], reply["refused"], "probe" in reply) == ("cancelled", True, False)


async def test_one_that_a_worker_took_up_meanwhile_was_not_refused(sf):
    job = await scheduled(sf)

    async def probe() -> bool:
        await store_of(sf).write(operations_scripts.hurry, job)
        await claim_one(store_of(sf))
        return True

    reply = await sf.retry(job, probe=probe, timeout=PATIENCE)
    assert (reply["status"], "refused" in reply) == ("running", False)


async def test_what_cannot_be_retried_asks_nobody(sf):
    running = await sf.enqueue("mail", {})
    await claim_one(store_of(sf))
    reply = await sf.retry(running.id, probe=saying(), timeout=PATIENCE)
    assert (reply["status"], reply["refused"]) == ("running", True)
    with pytest.raises(UnknownJob):
        await sf.retry("nowhere", probe=saying())


async def test_a_waiting_retry_can_be_cancelled(sf):
    job = await scheduled(sf)
    asked = asyncio.Event()

    def probe() -> bool:
        loop.call_soon_threadsafe(asked.set)
        return False

    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(sf.retry(job, probe=probe, timeout=PATIENCE))
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await job_of(sf, job)).view == "scheduled"


@pytest.mark.parametrize(
    ("probe", "why"),
    [(7, "a probe is a function or a URL, not 7"), ("ftp://x/", "is not an absolute url"), ("up", "not an absolute")],
)
async def test_what_cannot_be_asked_is_refused_at_once(sf, probe, why):
    with pytest.raises(ConfigurationError, match=why):
        await sf.retry(await scheduled(sf), probe=probe)
