"""Whether a store counts its jobs right: asked at the end of every test of a store whose clock stands still."""

from __future__ import annotations

from standfast import Standfast, StandfastError
from standfast.wings.health.counting import Miscount, miscounts
from tests.worker.inside import store_of


async def wrong_counts(sf: Standfast) -> list[Miscount]:
    """Name each count that is not what the jobs themselves say."""
    store = store_of(sf)
    return await store.read(miscounts(store.now()))


async def check_counts(sf: Standfast) -> None:
    """Compare every count with the jobs; a store that the test has closed or broken is not asked."""
    try:
        wrong = await wrong_counts(sf)
    except StandfastError:
        return
    assert wrong == []
