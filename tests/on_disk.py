"""What tests of processes share: a store of the test's own, and the log that worker processes leave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from standfast import Standfast
from standfast.testing import FrozenClock, memory
from standfast.testing.kit import InMemory
from tests.counts import check_counts
from tests.worker.processes import Log


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Name a file, for what only SQLite does."""
    return str(tmp_path / "queue.db")


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, path: str) -> str:
    """Name a store that several processes can open, of every kind there is."""
    return path if request.param == "file" else str(request.getfixturevalue("used_postgres_url"))


@pytest.fixture
async def disk(url: str) -> AsyncIterator[Standfast]:
    store = Standfast(url)
    yield store
    await check_counts(store)
    await store.close()


@pytest.fixture
async def in_file(path: str) -> AsyncIterator[Standfast]:
    """Give a store in a file, for what only SQLite does."""
    store = Standfast(path)
    yield store
    await store.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def frozen(request: pytest.FixtureRequest) -> InMemory:
    """Give a store whose clock stands still, of the kind that the fixture's parameter names."""
    return (
        memory()
        if request.param == "memory"
        else InMemory(request.getfixturevalue("used_postgres_url"), clock=FrozenClock())
    )
