"""Two stores for the worker's tests: one whose clock stands still, one with the real clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from standfast import Standfast
from standfast.testing.kit import InMemory
from tests.counts import check_counts
from tests.on_disk import disk, frozen, in_file, log, path, url

__all__ = ["disk", "in_file", "log", "path", "sf", "url"]


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[InMemory]:
    async with frozen(request) as store:
        yield store
        await check_counts(store)


@pytest.fixture
async def home(postgres_url: str) -> AsyncIterator[Standfast]:
    """Give the place that a store is promoted to; it is opened when it is first used."""
    store = Standfast(postgres_url)
    yield store
    await check_counts(store)
    await store.close()
