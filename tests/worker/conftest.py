"""Two stores for the worker's tests: one in memory whose clock stands still, one on disk with the real clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from standfast import Standfast
from standfast.testing import memory
from standfast.testing.kit import InMemory


@pytest.fixture
async def sf() -> AsyncIterator[InMemory]:
    async with memory() as store:
        yield store


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "queue.db")


@pytest.fixture
async def disk(path: str) -> AsyncIterator[Standfast]:
    store = Standfast(path)
    yield store
    await store.close()
