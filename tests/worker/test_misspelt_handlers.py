"""A job for a handler that no process has is stored, and its caller is warned of it at once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from standfast import Standfast, StoreUnavailable
from standfast.wings.queues import checks, scripts
from standfast.wings.queues.checks import LOOKER

WAITS = "; its jobs wait until a process has one"


async def one_of_steps(sf: Standfast) -> None:
    workflow = sf.workflow("orders")
    workflow.step("first", "sned", 1, queue="mail")
    await workflow.start()


WAYS: list[Callable[[Standfast], Awaitable[Any]]] = [
    lambda sf: sf.enqueue("mail", 1, handler="sned"),
    lambda sf: sf.enqueue_many("mail", [1, 2], handler="sned"),
    lambda sf: sf.enqueue_each([{"queue": "mail", "handler": "sned"}]),
    lambda sf: sf.prepare("mail", 1, handler="sned").store(),
    lambda sf: sf.schedules.add("daily", "mail", handler="sned", every="1d"),
    one_of_steps,
]
NAMES = ["enqueue", "enqueue_many", "enqueue_each", "prepare", "schedules.add", "workflow.step"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give what callers were warned of, once every look that they caused is over."""
    for thread in threading.enumerate():
        if thread.name == LOOKER:
            thread.join()
    return [each.getMessage() for each in caplog.records if each.name == "standfast.queue"]


@pytest.fixture
async def warned(sf: Standfast, caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Have a queue with one handler; give what callers were warned of."""

    @sf.handler("mail", name="send")
    async def send(_: Any) -> None: ...

    await sf.enqueue("mail", 1, handler="send")
    caplog.set_level(logging.WARNING, "standfast.queue")
    return lambda: warnings(caplog)


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
async def test_whoever_names_a_handler_that_nobody_has_is_warned_with_the_nearest_name(sf, warned, way):
    await way(sf)
    assert warned() == [f"queue 'mail' has no handler 'sned' (did you mean 'send'?){WAITS}"]
    await way(sf)
    assert len(warned()) == 1, "once for each name"


async def test_a_job_that_names_an_unknown_handler_is_stored(sf, warned):
    receipt = await sf.enqueue("mail", 1, handler="archive")
    assert (await sf.status(receipt.id)).state == "queued"
    assert warned() == [f"queue 'mail' has no handler 'archive'{WAITS}"]


async def test_a_step_named_like_no_queue_is_pointed_out_if_a_handler_is_called_almost_so(sf, warned):
    for name in ("sendd", "invoice"):
        workflow = sf.workflow("orders")
        workflow.step("first", name, 1)
        await workflow.start()
    assert warned() == [f"queue 'sendd' has no handler 'sendd' (did you mean 'send'?){WAITS}"]


async def test_nobody_is_warned_of_a_queue_that_no_worker_serves_yet(sf, warned):
    await sf.enqueue("letters", 1, handler="send")
    await sf.enqueue_many("letters", [1])
    await sf.enqueue_http("letters", "POST", "https://example.com/")
    assert warned() == []


async def test_a_queue_whose_workers_have_not_started_is_taken_for_no_slip_of_another(
    sf: Standfast, caplog: pytest.LogCaptureFixture
) -> None:
    @sf.handler("bench-probe")
    async def probe(_: Any) -> None: ...

    await sf.enqueue("bench-probe", 1)
    caplog.set_level(logging.WARNING, "standfast.queue")
    for queue in ("bench-work", "bench-prob"):
        await sf.enqueue_many(queue, [1])
    assert warnings(caplog) == [f"queue 'bench-prob' has no handler 'bench-prob' (did you mean 'bench-probe'?){WAITS}"]


async def test_fifty_callers_of_one_moment_are_warned_once(sf, warned):
    await asyncio.gather(*(sf.enqueue("mail", n, handler="sned") for n in range(50)))
    assert len(warned()) == 1


async def test_a_look_that_takes_long_or_fails_keeps_no_receipt(sf, warned, monkeypatch):
    """The job is on disk: a caller who got no receipt would hand it in again."""
    read, go = scripts.published_handlers, threading.Event()

    def slow() -> Any:
        assert go.wait(20)
        raise StoreUnavailable("it went away", definite=True)

    monkeypatch.setattr(scripts, "published_handlers", slow)
    receipt = await sf.enqueue("mail", 1, handler="sned")
    assert (await sf.status(receipt.id)).state == "queued"
    go.set()
    assert warned() == []
    monkeypatch.setattr(scripts, "published_handlers", read)
    monkeypatch.setattr(checks, "PAUSE", 0.0)
    await sf.enqueue("mail", 1, handler="snd")
    assert len(warned()) == 1


async def test_a_producer_that_starts_before_its_worker_is_warned_later(sf, warned, monkeypatch):
    monkeypatch.setattr(checks, "PAUSE", 0.0)
    await sf.enqueue("letters", 1, handler="wirte")
    assert warned() == []
    sf.handler("letters", name="write")(lambda _job: None)
    await sf.enqueue("letters", 1, handler="wirte")
    assert warned() == [f"queue 'letters' has no handler 'wirte' (did you mean 'write'?){WAITS}"]
