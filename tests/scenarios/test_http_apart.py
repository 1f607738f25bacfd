"""Queues do not hold each other up: not through a name that hangs, nor a slow receiver, nor the loop's own threads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import pytest

from standfast import Standfast
from standfast.wings.http.resolver import MOST_LOOKUPS
from tests.waiting import ended, seen

MANY = 260
"""More requests at once than one pool used to have connections."""


class Hanging:
    """Lookups of names below `.hangs` that do not come back until the test ends."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.over = Event()
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: Any, *args: Any, **options: Any) -> Any:
        if not str(host).endswith(".hangs"):
            return self._real("127.0.0.1" if host == "receiver.test" else host, *args, **options)
        self.asked.append(host)
        self.over.wait()
        raise socket.gaierror("no such name")


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    names = Hanging()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    yield names
    names.over.set()


@asynccontextmanager
async def slow_receiver() -> AsyncIterator[tuple[str, list[str]]]:
    """Give the address of a receiver that never answers `/slow`, and the list of what it was asked for."""
    asked: list[str] = []
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split()[1].decode())
        if b"/slow" in head:
            await over.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2 * MANY)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    over.set()
    server.close()


async def test_names_that_hang_hold_up_their_own_queue_only(disk: Standfast, spot, hanging):
    disk.queue("hung")
    disk.queue("fast", destinations=["receiver.test"], attempts=1)
    async with disk.worker(grace=0):
        for number in range(2 * MOST_LOOKUPS):
            await disk.enqueue_http("hung", "GET", f"http://n{number}.hangs/")
        await seen(lambda: len(hanging.asked) == MOST_LOOKUPS)
        job = await ended(disk, (await disk.enqueue_http("fast", "GET", spot.url(host="receiver.test"))).id)
        assert (job.state, job.attempts, len(hanging.asked)) == ("completed", 1, MOST_LOOKUPS)


async def test_one_name_that_hangs_takes_one_lookup_of_its_queue(disk: Standfast, spot, hanging):
    disk.queue("mixed", destinations=["receiver.test"], attempts=1)
    async with disk.worker(grace=0):
        for _ in range(2 * MOST_LOOKUPS):
            await disk.enqueue_http("mixed", "GET", "http://one.hangs/")
        await seen(lambda: hanging.asked)
        job = await ended(disk, (await disk.enqueue_http("mixed", "GET", spot.url(host="receiver.test"))).id)
        assert (job.state, hanging.asked) == ("completed", ["one.hangs"])


async def test_a_lookup_that_was_given_up_is_not_repeated_beside_itself(disk: Standfast, hanging):
    disk.queue("hung", attempts=1)
    async with disk.worker(grace=0):
        for _ in range(2):
            job = await ended(disk, (await disk.enqueue_http("hung", "GET", "http://one.hangs/", timeout=0.5)).id)
            assert job.history[-1].landed == "no"
            assert "looked up in time" in (job.history[-1].message or "")
        assert hanging.asked == ["one.hangs"]


async def test_a_slow_receiver_takes_connections_of_its_own_queue_only(disk: Standfast):
    for queue in ("slow", "fast"):
        disk.queue(queue, destinations=["127.0.0.1"], attempts=1)
    async with slow_receiver() as (where, asked), disk.worker(concurrency=MANY, grace=0):
        await asyncio.gather(*(disk.enqueue_http("slow", "GET", f"http://{where}/slow") for _ in range(MANY)))
        await seen(lambda: asked.count("/slow") == MANY)
        job = await ended(disk, (await disk.enqueue_http("fast", "GET", f"http://{where}/fast", timeout=5)).id)
        assert job.state == "completed"


async def test_handlers_that_take_every_thread_of_the_loop_stop_no_bookkeeping(url: str, spot):
    over = Event()
    loop = asyncio.get_running_loop()
    taken = [loop.run_in_executor(None, over.wait) for _ in range(64)]
    try:
        async with asyncio.timeout(15), Standfast(url) as sf:
            sf.queue("fast", destinations=["127.0.0.1"])
            receipt = await sf.enqueue_http("fast", "GET", spot.url())
            async with sf.worker():
                assert (await ended(sf, receipt.id)).state == "completed"
            assert (await sf.doctor())["ok"]
    finally:
        over.set()
        await asyncio.gather(*taken)
