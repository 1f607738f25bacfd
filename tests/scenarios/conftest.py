"""What the stories share: stores, the log that worker processes leave, and a receiver of HTTP requests."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from standfast import fixed
from standfast.testing.kit import InMemory
from tests.on_disk import disk, frozen, in_file, log, path, url
from tests.receiver import Receiver, Spot
from tests.sending import WAIT

__all__ = ["app", "disk", "in_file", "log", "path", "receiver", "resolver", "spot", "url"]


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """One receiver for all; each test has a path of its own there."""
    running = Receiver(tmp_path_factory.mktemp("receiver") / "requests.jsonl").start()
    yield running
    running.stop()


@pytest.fixture
def spot(receiver: Receiver, request: pytest.FixtureRequest) -> Spot:
    return Spot(receiver, f"/{abs(hash(request.node.nodeid))}")


@pytest.fixture(params=["memory", "postgres"])
async def app(request: pytest.FixtureRequest) -> AsyncIterator[InMemory]:
    """Give an application whose clock stands still, with a queue that may call the receiver."""
    async with frozen(request) as sf:
        sf.queue("feedback", destinations=["127.0.0.1"], backoff=fixed(WAIT), attempts=3)
        yield sf


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
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
