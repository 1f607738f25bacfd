"""Hooks of the application: when workers start and end, and middleware around attempts."""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from standfast import ConfigurationError, Permanent, Snooze
from standfast.errors import StartupFailed
from standfast.testing import drain
from tests.waiting import ended, failure_of, job_of
from tests.worker.isolated_app import register

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")
TENANT: ContextVar[str] = ContextVar("TENANT", default="none")


# --- when workers start and end


async def test_hooks_run_before_the_first_claim_and_after_the_last_end(disk):
    order: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @disk.on_startup
    async def connect():
        order.append(f"start-up, {(await job_of(disk, waiting.id)).state}")

    @disk.on_startup
    def load():
        assert threading.current_thread() is not threading.main_thread(), "a plain hook must not hold up the loop"
        order.append("second start-up")

    @disk.on_shutdown
    async def disconnect():
        order.append(f"shut-down, {(await job_of(disk, waiting.id)).state}")

    @disk.handler("mail")
    async def send(_job):
        begun.set()
        await go.wait()
        order.append("handler")

    waiting = await disk.enqueue("mail")
    async with disk.worker():
        await begun.wait()
        go.set()
    assert order == ["start-up, queued", "second start-up", "handler", "shut-down, completed"]


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_start_up_hook_that_fails_keeps_the_worker_from_starting(disk, plain):
    async def fails():
        raise OSError("no\nroute")

    def fails_too():
        raise OSError("no\nroute")

    ran: list[str] = []
    disk.on_startup(fails_too if plain else fails)
    disk.on_shutdown(lambda: ran.append("shut down"))
    disk.handler("mail")(lambda _job: ran.append("handler"))
    job = await disk.enqueue("mail")
    with pytest.raises(StartupFailed) as failed:
        async with disk.worker():
            pytest.fail("it must not start")
    said = str(failed.value)
    assert "the start-up hook" in said
    assert "OSError: no route" in said
    assert "test_hooks.py, line" in said
    assert said.endswith("nothing was claimed")
    assert ran == []
    left = await job_of(disk, job.id)
    assert (left.state, left.attempts) == ("queued", 0)
    assert await disk.workers() == []


async def test_hooks_run_once_for_all_workers_of_a_process_and_again_for_later_ones(disk):
    ran: list[str] = []

    @disk.on_startup
    async def begin():
        await asyncio.sleep(0)
        ran.append("start")

    disk.on_shutdown(lambda: ran.append("stop"))
    first, second = disk.worker(), disk.worker()
    await asyncio.gather(first.__aenter__(), second.__aenter__())
    assert ran == ["start"]
    await first.drain()
    assert ran == ["start"]
    await second.drain()
    assert ran == ["start", "stop"]
    async with disk.worker():
        assert ran == ["start", "stop", "start"]
    assert ran == ["start", "stop", "start", "stop"]


async def test_a_shut_down_hook_that_fails_or_hangs_keeps_nothing_from_ending(disk, monkeypatch, caplog):
    monkeypatch.setattr("standfast.worker.life_hooks.LONGEST_SHUTDOWN", 0.05)
    ran: list[str] = []

    @disk.on_shutdown
    async def breaks():
        raise ValueError("no such pool")

    @disk.on_shutdown
    async def hangs():
        await asyncio.Event().wait()

    disk.on_shutdown(lambda: ran.append("the last one"))
    async with disk.worker():
        pass
    assert ran == ["the last one"]
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("breaks failed" in each for each in said)
    assert any("hangs took longer than 0.05 s" in each for each in said)


async def test_drain_in_tests_runs_the_hooks_too(sf):
    ran: list[str] = []
    sf.on_startup(lambda: ran.append("start"))
    sf.on_shutdown(lambda: ran.append("stop"))
    sf.handler("mail")(lambda _job: ran.append("handler"))
    await sf.enqueue("mail")
    await drain(sf)
    assert ran == ["start", "handler", "stop"]


@pytest.mark.parametrize(
    ("decorate", "what"),
    [
        (lambda sf: sf.on_startup(lambda _job: None), "@sf.on_startup takes a function without arguments"),
        (lambda sf: sf.on_shutdown(4711), "@sf.on_shutdown takes a function without arguments"),
        (lambda sf: sf.middleware(lambda _job, _next: None), "@sf.middleware takes an async function of two"),
        (lambda sf: sf.middleware(asyncio.sleep), None),
    ],
)
async def test_what_cannot_be_called_is_refused_where_it_is_declared(sf, decorate, what):
    if what is None:  # sleep(delay, result) takes two arguments
        decorate(sf)
        return
    with pytest.raises(ConfigurationError, match=what):
        decorate(sf)


# --- middleware


async def hello(job: Any) -> Any:
    return {"hello": job.payload, "who": WHO.get()}


def plain_hello(job: Any) -> Any:
    return {"hello": job.payload, "who": WHO.get()}


@pytest.mark.parametrize("handler", [hello, plain_hello], ids=["async", "plain"])
async def test_middleware_stands_around_the_handler_in_order_of_declaration(sf, handler):
    order: list[Any] = []

    @sf.middleware
    async def outer(job, call_next):
        order.append(("outer", job.payload, job.attempt))
        WHO.set("ann")
        result = await call_next()
        order.append(("outer saw", result))
        return {**result, "seen": True}

    @sf.middleware
    async def inner(job, call_next):
        order.append("inner")
        result = await call_next(job)
        order.append("inner saw it")
        return result

    sf.handler("mail")(handler)
    job = await sf.enqueue("mail", 7)
    await drain(sf)
    assert order == [
        ("outer", 7, 1),
        "inner",
        "inner saw it",
        ("outer saw", {"hello": 7, "who": "ann"}),
    ]
    assert (await job_of(sf, job.id)).result == {"hello": 7, "who": "ann", "seen": True}


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_what_a_handler_sets_in_its_context_is_seen_by_the_middleware(sf, plain):
    saw: list[str] = []

    @sf.middleware
    async def around(_job, call_next):
        WHO.set("ann")
        await call_next()
        saw.extend((WHO.get(), TENANT.get()))

    async def sets(_job):
        assert WHO.get() == "ann"
        TENANT.set("acme")

    def sets_too(_job):
        assert WHO.get() == "ann"
        TENANT.set("acme")

    sf.handler("mail")(sets_too if plain else sets)
    await sf.enqueue("mail")
    await drain(sf)
    assert saw == ["ann", "acme"]
    assert (WHO.get(), TENANT.get()) == ("nobody", "none")


async def test_one_attempt_sees_nothing_of_the_context_of_another(sf):
    saw: list[str] = []

    @sf.middleware
    async def around(job, call_next):
        saw.append(WHO.get())
        WHO.set(str(job.payload))
        return await call_next()

    sf.handler("mail")(hello)
    jobs = [await sf.enqueue("mail", each) for each in range(3)]
    await drain(sf)
    assert saw == ["nobody"] * 3
    assert [(await job_of(sf, job.id)).result["who"] for job in jobs] == ["0", "1", "2"]


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_middleware_sees_the_exception_and_may_raise_another(sf, plain):
    saw: list[str] = []

    @sf.middleware
    async def around(_job, call_next):
        try:
            return await call_next()
        except ValueError as error:
            saw.append(str(error))
            raise Permanent("bad card", reason_code="card_refused") from error

    async def breaks(_job):
        raise ValueError("4711")

    def breaks_too(_job):
        raise ValueError("4711")

    sf.handler("mail")(breaks_too if plain else breaks)
    job = await sf.enqueue("mail")
    await drain(sf)
    dead = await job_of(sf, job.id)
    assert saw == ["4711"]
    assert (dead.state, failure_of(dead).reason_code) == ("dead", "card_refused")


async def test_middleware_may_answer_in_the_handlers_place_or_put_the_job_off(sf):
    sf.handler("mail")(hello)

    @sf.middleware
    async def around(job, call_next):
        if job.payload == "cached":
            return "from the cache"
        return Snooze(60) if job.payload == "later" else await call_next()

    cached, later = await sf.enqueue("mail", "cached"), await sf.enqueue("mail", "later")
    await drain(sf)
    assert (await job_of(sf, cached.id)).result == "from the cache"
    put_off = await job_of(sf, later.id)
    assert (put_off.state, put_off.attempts, put_off.deferrals) == ("queued", 0, 1)


async def test_a_second_call_of_the_handler_in_one_attempt_is_refused(sf):
    ran: list[int] = []

    @sf.middleware
    async def around(_job, call_next):
        await call_next()
        return await call_next()

    sf.queue("mail", attempts=1)
    sf.handler("mail")(lambda _job: ran.append(1))
    job = await sf.enqueue("mail")
    await drain(sf)
    assert ran == [1]
    assert "call_next twice" in failure_of(await job_of(sf, job.id)).message


async def test_a_timeout_reaches_the_handler_through_middleware(disk):
    saw: list[str] = []

    @disk.middleware
    async def around(_job, call_next):
        try:
            return await call_next()
        except asyncio.CancelledError:
            saw.append("cancelled")
            raise

    @disk.handler("slow", timeout=0.05)
    async def slow(_job):
        await asyncio.Event().wait()

    disk.queue("slow", attempts=1)
    job = await disk.enqueue("slow")
    async with disk.worker():
        dead = await ended(disk, job.id)
    assert saw == ["cancelled"]
    assert failure_of(dead).cause == "timeout"


async def test_middleware_stands_around_run_too_even_if_declared_after_the_first_call(disk):
    send = disk.handler("mail")(hello)
    assert (await send.run(1))["result"]["who"] == "nobody"

    @disk.middleware
    async def around(_job, call_next):
        WHO.set("ann")
        return await call_next()

    assert (await send.run(1))["result"] == {"hello": 1, "who": "ann"}


async def test_middleware_stands_around_isolated_handlers_in_the_worker(disk):
    saw: list[Any] = []
    register(disk)

    @disk.middleware
    async def around(_job, call_next):
        try:
            result = await call_next()
        except Exception as error:
            saw.append(f"{type(error).__name__}: {error}")
            raise
        saw.append(result)
        return {**result, "seen_in": os.getpid()}

    good, bad = await disk.enqueue("ends"), await disk.enqueue("ends", "value")
    async with disk.worker():
        done, dead = await ended(disk, good.id), await ended(disk, bad.id)
    assert done.result["pid"] != done.result["seen_in"] == os.getpid()
    assert dead.state == "dead"
    raised = [each for each in saw if isinstance(each, str)]
    assert [each.startswith("ValueError: no such thing") for each in raised] == [True, True]
    assert len(saw) == 3
