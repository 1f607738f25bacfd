"""Enqueues as fast as it is let, until the store has moved: `python producing.py STORE LOG NAME`.

Whatever was acknowledged is written to the log: a record the product does not write.
"""

from __future__ import annotations

import asyncio
import sys

from standfast import Standfast, StoreUnavailable
from standfast.errors import StoreMoved
from tests.worker.child import tell


async def produce(store: str, log: str, name: str) -> None:
    """Give every job a key, and hand it in again with it when nobody knows whether it was stored."""
    async with Standfast(store) as sf:
        number = 0
        while True:
            label = f"{name}-{number}"
            try:
                receipt = await sf.enqueue("mail", {"name": label}, idempotency_key=label)
            except StoreMoved as moved:
                tell(log, "moved", label, int(moved.definite), 0)
                return
            except StoreUnavailable:
                continue
            tell(log, "accepted", label, 0, 0)
            assert receipt.id is not None
            number += 1
            await asyncio.sleep(0.001)


if __name__ == "__main__":
    asyncio.run(produce(*sys.argv[1:]))
