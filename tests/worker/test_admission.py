"""Admission gates: what a queue's function or URL says decides whether anything starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from standfast import Standfast
from standfast.testing import drain
from standfast.wings.limits import answers as admission
from standfast.wings.limits import queue_gates as admission_module
from tests.waiting import ended, job_of, reached, seen


@pytest.fixture(autouse=True)
def _asked_often(monkeypatch):
    monkeypatch.setattr(admission, "OPEN", admission.GateAnswer("open", 0.02))
    monkeypatch.setattr(admission, "CLOSED_FOR", 0.02)


def gated(sf: Standfast, gate: Any) -> list[Any]:
    ran: list[Any] = []
    sf.queue("mail", gate=gate)

    @sf.handler("mail")
    async def mail(job: Any) -> None:
        ran.append(job.payload)

    return ran


async def said(answers: list[Any]) -> Any:
    await asyncio.sleep(0)
    return answers[0]


ANSWERS: list[Callable[[list[Any]], Callable[..., Any]]] = [
    lambda answers: lambda: answers[0],
    lambda answers: lambda queue: answers[0] if queue == "mail" else None,
    lambda answers: lambda: said(answers),
]


@pytest.mark.parametrize("make", ANSWERS, ids=["plain", "named", "awaited"])
async def test_work_starts_when_the_gate_opens(disk, make):
    answers: list[Any] = [False]
    ran = gated(disk, make(answers))
    async with disk.worker():
        receipt = await disk.enqueue("mail", 1)
        job = await reached(disk, receipt.id, "parked")
        assert (job.parked_on, job.attempts, job.deferrals, ran) == ("gate:mail", 0, 1, [])
        assert "gate has been closed" in await disk.explain(receipt.id)
        answers[0] = True
        assert (await ended(disk, receipt.id)).attempts == 1
    assert ran == [1]


@pytest.mark.parametrize("answer", [None, "yes", ZeroDivisionError("no quota")])
async def test_a_gate_that_gives_no_answer_is_closed_and_in_health(disk, answer):
    answers: list[Any] = [answer]

    def gate() -> Any:
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    ran = gated(disk, gate)
    async with disk.worker():
        receipt = await disk.enqueue("mail", 1)
        await reached(disk, receipt.id, "parked")
        [issue] = [issue for issue in (await disk.health())["issues"] if "gate" in issue]
        assert issue.startswith("mail: its gate counts as closed: it")
        assert (await disk.stats())["counters"]["gate_broken"] == 1
        assert ran == []
        answers[0] = True
        await ended(disk, receipt.id)
    assert [issue for issue in (await disk.health())["issues"] if "gate" in issue] == []


async def test_a_function_that_hangs_is_not_called_again_beside_itself(disk, monkeypatch):
    monkeypatch.setattr(admission_module, "WITHIN", 0.05)
    go, calls = threading.Event(), []

    def gate() -> bool:
        calls.append(1)
        go.wait(20)
        return True

    ran = gated(disk, gate)
    async with disk.worker():
        receipt = await disk.enqueue("mail", 1)
        await reached(disk, receipt.id, "parked")

        async def told() -> bool:
            return "has not answered the last question" in await disk.explain(receipt.id)

        await seen(told)
        assert (len(calls), ran) == (1, [])
        go.set()
        await ended(disk, receipt.id)


async def test_a_big_backlog_stays_where_it_is_and_says_why(disk):
    gated(disk, lambda: 60)
    async with disk.worker(concurrency=2):
        receipts = await disk.enqueue_many("mail", list(range(5)))
        await reached(disk, receipts[0].id, "parked")
        assert (await job_of(disk, receipts[4].id)).view == "queued"
        assert "it says no for 60 s" in await disk.explain(receipts[4].id)


async def test_a_test_drains_through_an_open_gate_and_stops_at_a_closed_one(sf):
    answers = [False]
    ran = gated(sf, lambda: answers[0])
    await sf.enqueue("mail", 1)
    assert await drain(sf) == {}
    answers[0] = True
    assert await drain(sf) == {"mail": 1}
    assert ran == [1]


async def test_a_gate_that_only_another_process_has_is_closed(disk, url):
    gated(disk, lambda: True)
    other = Standfast(url)

    @other.handler("mail")
    async def mail(_: Any) -> None:
        return None

    receipt = await disk.enqueue("mail", 1)
    async with other, other.worker():
        assert (await reached(disk, receipt.id, "parked")).attempts == 0
        assert "this process does not have" in await disk.explain(receipt.id)
    async with disk.worker():
        await ended(disk, receipt.id)


async def test_a_url_is_asked_and_its_retry_after_honoured(disk, answering):
    status, asked, address = answering
    status[0] = 503
    ran = gated(disk, address)
    async with disk.worker():
        receipt = await disk.enqueue("mail", 1)
        await reached(disk, receipt.id, "parked")
        assert "HTTP 503" in await disk.explain(receipt.id)
        status[0] = 204
        await ended(disk, receipt.id)
    assert ran == [1]
    assert len(asked) >= 2


@pytest.fixture
async def answering():
    """Give a server that answers what it is told, every request it got, and its address."""
    status, asked = [200], []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status[0]} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield status, asked, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/quota"
    server.close()
    await seen(lambda: not server.is_serving())
