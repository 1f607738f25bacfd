"""Renew a turn while the work takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def renew_while(every: float, say_so: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Renew every so many seconds while the block runs; a failed renewal shows at the end."""

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
