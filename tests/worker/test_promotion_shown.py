"""What health says on either side while a promotion runs, and after it was interrupted."""

from __future__ import annotations

from contextlib import closing

import pytest

from standfast import Standfast
from standfast.store.postgres.target import Target
from standfast.store.sqlite.source import HEARD_OF_WITHIN, Source
from standfast.testing import FrozenClock

HOME = "postgresql://home"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


async def said(sf: Standfast) -> list[str]:
    return [issue for issue in (await sf.health())["issues"] if "promot" in issue]


def promoting(path: str, clock: FrozenClock, *, ends: bool = False) -> None:
    """Begin as a promotion does; it ends in good order, or as one that was killed."""
    with closing(Source(path, clock)) as source:
        source.begin(HOME)
        if ends:
            source.give_up()


async def told(path: str, clock: FrozenClock) -> list[str]:
    async with Standfast(path, clock=clock) as sf:
        return await said(sf)


async def test_the_old_store_tells_until_it_is_given_up(path, clock):
    assert await told(path, clock) == []
    promoting(path, clock)
    assert await told(path, clock) == [f"a promotion to {HOME} is running"]
    promoting(path, clock, ends=True)
    assert await told(path, clock) == []


@pytest.mark.parametrize("meanwhile", ["nothing", "work"])
async def test_the_old_store_tells_of_an_interrupted_one_until_it_is_run_again(path, clock, meanwhile):
    assert await told(path, clock) == []
    promoting(path, clock)
    clock.advance(HEARD_OF_WITHIN + 1)
    if meanwhile == "work":
        async with Standfast(path, clock=clock) as sf:
            await sf.enqueue("mail")
    [issue] = await told(path, clock)
    assert issue.startswith(f"a promotion to {HOME} was interrupted: this store goes on")
    promoting(path, clock)
    assert await told(path, clock) == [f"a promotion to {HOME} is running"]


async def test_the_new_store_tells_while_it_is_filled(postgres_url):
    sf = Standfast(postgres_url)
    assert await said(sf) == []
    with closing(Target(postgres_url)) as target:
        target.begin("source")
        [issue] = await said(sf)
        assert issue.startswith("standfast promote is filling this store")
        target.open_to_all("source", {})
        assert await said(sf) == []
    await sf.close()
