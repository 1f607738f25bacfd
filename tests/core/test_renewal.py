"""A turn is renewed for as long as the work takes."""

from __future__ import annotations

import asyncio

import pytest

from standfast import StoreUnavailable
from standfast.wings.redrives.renewal import renew_while
from tests.waiting import seen

OFTEN = 0.001


class Renewals:
    def __init__(self, *failing: Exception) -> None:
        self.failing = [*failing]
        self.count = 0

    async def renew(self) -> None:
        if self.failing:
            raise self.failing.pop()
        self.count += 1


async def test_a_turn_is_renewed_after_a_renewal_that_failed(caplog):
    """Another process took the work over in the middle of it."""
    renewals = Renewals(StoreUnavailable("away", definite=True))
    async with renew_while(OFTEN, renewals.renew):
        await seen(lambda: renewals.count > 1)
    assert "could not be renewed" in caplog.text


async def test_the_renewing_ends_with_the_work():
    renewals = Renewals()
    async with renew_while(OFTEN, renewals.renew):
        await seen(lambda: renewals.count)
    counted = renewals.count
    await asyncio.sleep(10 * OFTEN)
    assert renewals.count == counted


async def test_a_fault_of_a_renewal_is_raised():
    renewals = Renewals(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        async with renew_while(OFTEN, renewals.renew):
            await seen(lambda: not renewals.failing)
