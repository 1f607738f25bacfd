"""`standfast.default()`: one queue for the whole process, from the environment."""

from __future__ import annotations

import threading

import pytest

import standfast


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    monkeypatch.setattr("standfast.application.standfast._default", [])


async def test_it_is_one_and_reads_the_environment(url, monkeypatch):
    monkeypatch.setenv("STANDFAST_URL", url)
    sf = standfast.default()
    assert sf is standfast.default()
    receipt = await sf.enqueue("mail", 1)
    await sf.close()
    async with standfast.Standfast(url) as other:
        assert await other.status(receipt.id) is not None


def test_threads_that_ask_at_once_get_the_same(monkeypatch):
    monkeypatch.setenv("STANDFAST_URL", ":memory:")
    made: list[standfast.Standfast] = []
    together = threading.Barrier(8)

    class Counted(standfast.Standfast):
        def __init__(self) -> None:
            made.append(self)
            super().__init__()

    monkeypatch.setattr("standfast.application.standfast.Standfast", Counted)
    found: list[standfast.Standfast] = []

    def ask() -> None:
        together.wait()
        found.append(standfast.default())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert set(found) == set(made)
