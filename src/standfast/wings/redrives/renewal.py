"""Keeping a turn while something takes long: whoever has it says so again and again, until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def keeping(every: float, say_so: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Say every so many seconds that it is still being done; whoever could not finds out at the end."""

    async def saying() -> None:
        while True:
            await asyncio.sleep(every)
            await say_so()

    telling = asyncio.create_task(saying())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
