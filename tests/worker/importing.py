"""An import that is killed between two of its transactions: `python importing.py DATABASE FILE`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from standfast import Standfast
from standfast.concurrency.flows import Answer
from standfast.store.store import Store
from standfast.wings.letters import arrivals, letter_import
from tests.between import between

AT_ONCE = 3


async def one_bite(_: Sequence[Any], brought: Answer[Any]) -> None:
    """Die once the first letters are on disk."""
    await brought
    os.kill(os.getpid(), signal.SIGKILL)


async def bring_in(url: str, file: str) -> None:
    """Import, and die."""
    letter_import.BITE = AT_ONCE
    between(Store, arrivals.bring_in, one_bite)
    async with Standfast(url) as sf:
        await sf.dead_letters.import_(file, by="ann", reason="moving")


if __name__ == "__main__":
    asyncio.run(bring_in(*sys.argv[1:]))
