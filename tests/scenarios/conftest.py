"""What the stories share: a store on disk with the real clock, and the log that worker processes leave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from standfast import Standfast
from tests.worker.processes import Log


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "queue.db")


@pytest.fixture
async def disk(path: str) -> AsyncIterator[Standfast]:
    store = Standfast(path)
    yield store
    await store.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")
