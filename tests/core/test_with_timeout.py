"""Waiting for so long: also in a task that is being cancelled, and never past a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from standfast.concurrency.threads import with_timeout

NEVER = 3600.0


async def tidied_up() -> list[str]:
    """Give what a task did that was cancelled, and waits for something that never comes while it tidies up."""
    did: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(NEVER)
        except asyncio.CancelledError:
            with pytest.raises(TimeoutError):
                await with_timeout(asyncio.sleep(NEVER), 0.01)
            did.append("tidied up")
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    return did


async def test_a_task_that_is_cancelled_can_wait_for_so_long_while_it_tidies_up():
    """`asyncio.timeout` of Python before 3.11.4 raises CancelledError there: what follows would be left out."""
    assert await tidied_up() == ["tidied up"]


async def test_a_cancellation_is_no_timeout():
    task = asyncio.create_task(with_timeout(asyncio.sleep(NEVER), NEVER))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
