"""Renews a turn during long work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from standfast.errors import StandfastError

log = logging.getLogger("standfast.queue")


@asynccontextmanager
async def renew_while(every: float, say_so: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Call `say_so` every `every` seconds while the block runs. A renewal that fails is tried again the next time."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(every)
            try:
                await say_so()
            except StandfastError as error:
                log.warning("a turn could not be renewed; the next try is in %g s: %s", every, error)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
    if not renewing.cancelled():
        renewing.result()
