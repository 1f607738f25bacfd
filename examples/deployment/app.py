"""A small application as it is deployed: a handler, a schedule, and what its workers open and close."""

from __future__ import annotations

import logging
import time
from typing import Any

from standfast import Standfast

log = logging.getLogger("shop")
sf = Standfast()
sf.schedule("stock", "count_stock", every="15m")


@sf.on_startup
async def open_pool() -> None:
    """Open what every job needs, before the first one is claimed."""
    log.info("the pool is open")


@sf.on_shutdown
async def close_pool() -> None:
    """Close it, after the last one has ended."""
    log.info("the pool is closed")


@sf.middleware
async def timed(job: Any, call_next: Any) -> Any:
    """Say how long each attempt took."""
    began = time.monotonic()
    try:
        return await call_next()
    finally:
        log.info("job %s took %.3f s", job.id, time.monotonic() - began)


@sf.handler("count_stock")
async def count_stock(_job: Any) -> int:
    """Count what is there."""
    return 42
