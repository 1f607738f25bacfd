"""A handler that blocks the event loop is named: in the log, in health, and to whoever asks about its neighbours."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from standfast import Standfast
from standfast.worker import loop_watch as watch
from tests.waiting import ended, seen

DEADLINE = 10.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(watch, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(watch, "BLOCKED_AFTER", 0.1)


class Listening(logging.Handler):
    """Tells when the log has named somebody, on whatever thread."""

    def __init__(self) -> None:
        super().__init__()
        self.named = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "blocks the event loop" in record.getMessage():
            self.named.set()


@pytest.fixture
def named() -> Iterator[threading.Event]:
    listening = Listening()
    watch.log.addHandler(listening)
    yield listening.named
    watch.log.removeHandler(listening)


async def test_a_handler_that_blocks_the_loop_is_named_and_its_neighbour_is_not(disk, caplog, named):
    @disk.handler("slow", name="sleeper")
    async def sleeper(_job):
        assert named.wait(DEADLINE)

    async with disk.worker(), Standfast(disk.settings.url.value) as other:
        receipt = await disk.enqueue("slow", handler="sleeper")
        assert (await ended(disk, receipt.id)).state == "completed"

        async def blamed() -> list[str]:
            return [issue for issue in (await other.health())["issues"] if "event loop" in issue]

        [issue] = await seen(blamed)
        assert issue.startswith("slow/sleeper: blocks its worker's event loop")
        await seen(lambda: "the event loop goes on; slow/sleeper had held it up for" in caplog.text)
    assert f"handler slow/sleeper (job {receipt.id}) blocks the event loop" in caplog.text


async def test_a_plain_function_that_takes_its_time_is_not_named(disk, caplog):
    """The loop is free meanwhile: it has answered often enough for somebody to be named."""
    looked = threading.Event()

    @disk.handler("mail")
    def plain(_job):
        assert looked.wait(DEADLINE)

    async with disk.worker():
        receipt = await disk.enqueue("mail")
        threads = {thread.name for thread in threading.enumerate()}
        assert "standfast-watch" in threads
        threading.Timer(0.3, looked.set).start()
        await ended(disk, receipt.id)
    assert "event loop" not in caplog.text
