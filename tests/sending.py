"""What the HTTP stories share. A test module takes these fixtures with `pytest_plugins = ["tests.sending"]`."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from standfast import JobView, fixed
from standfast.job import Attempt, Receipt
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from tests.receiver import Receiver, Spot
from tests.waiting import job_of

WAIT = 10.0
"""Seconds before a repeat, without jitter's share: see `due_in`."""

Answers = Callable[..., list[str]]


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """One receiver for all; each test has a path of its own there."""
    running = Receiver(tmp_path_factory.mktemp("receiver") / "requests.jsonl").start()
    yield running
    running.stop()


@pytest.fixture
def spot(receiver: Receiver, request: pytest.FixtureRequest) -> Spot:
    return Spot(receiver, f"/{abs(hash(request.node.nodeid))}")


@pytest.fixture
async def app() -> AsyncIterator[InMemory]:
    """An application in memory whose clock stands still, with a queue that may call the receiver."""
    async with memory() as sf:
        sf.queue("feedback", destinations=["127.0.0.1"], backoff=fixed(WAIT), attempts=3)
        yield sf


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Have a name lead to these addresses: `resolver("name", first_answer, second_answer…)`, the last one repeated.

    Gives the list of names that were looked up, by whomever.
    """
    real = socket.getaddrinfo

    def install(name: str, *answers: list[str]) -> list[str]:
        asked: list[str] = []
        turns = chain(answers, repeat(answers[-1]))

        def answer(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            if host != name:
                return real(host, port, *args, **kwargs)
            asked.append(host)
            return [info for address in next(turns) for info in real(address, port, type=socket.SOCK_STREAM)]

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        return asked

    return install


async def tried(sf: InMemory, receipt: Receipt) -> JobView:
    """Run what is due once, and give the job."""
    await drain(sf)
    return await job_of(sf, receipt.id)


async def run_out(sf: InMemory, receipt: Receipt) -> JobView:
    """Let time pass and run until the job waits for nothing any more."""
    while not (job := await tried(sf, receipt)).settled:
        sf.clock.advance(WAIT)
    return job


def last(job: JobView) -> Attempt:
    """Give the last line of a job's history."""
    assert job.history, f"no attempt of {job.id} failed: it is {job.view}"
    return job.history[-1]
