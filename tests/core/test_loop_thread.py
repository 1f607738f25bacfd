"""The loop of plain calls at the end of a process: no caller waits for an answer that cannot come."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from standfast.concurrency import loop_thread
from standfast.concurrency.loop_thread import LoopThread
from standfast.errors import StoreUnavailable


async def answer() -> str:
    await asyncio.sleep(0)
    return "answered"


def test_a_call_that_found_the_loop_just_before_it_closed_is_answered(monkeypatch):
    loop = LoopThread()
    assert loop.run(answer()) == "answered"
    found = loop._started()  # noqa: SLF001
    loop._end()  # noqa: SLF001
    monkeypatch.setattr(loop, "_started", lambda: found)
    assert loop.run(answer()) == "answered"


def test_a_call_that_goes_on_when_the_process_ends_does_not_keep_its_caller(monkeypatch, caplog):
    monkeypatch.setattr(loop_thread, "LAST_SECONDS", 0.05)
    loop, entered, let_go = LoopThread(), threading.Event(), threading.Event()

    async def goes_on() -> None:
        entered.set()
        while not let_go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    with ThreadPoolExecutor(1) as callers:
        call = callers.submit(loop.run, goes_on())
        assert entered.wait(10)
        loop._end()  # noqa: SLF001
        with pytest.raises(StoreUnavailable, match=r"not known whether .* call again with the same key") as caught:
            call.result(10)
        assert not caught.value.definite
        let_go.set()
    found = loop._running  # noqa: SLF001
    assert found is not None
    found.thread.join(10)
    assert not found.thread.is_alive()
    assert caplog.text == "", "an answer that comes too late is no error"


def test_an_error_of_a_call_reaches_its_caller():
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        LoopThread().run(fail())
