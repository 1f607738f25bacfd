"""An import that is killed between two of its transactions: `python importing.py DATABASE FILE`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from standfast import Standfast
from standfast.store.facades.disposing import Disposal
from standfast.wings.letters import letter_import

AT_ONCE = 3


async def one_bite(disposal: Disposal, arrivals: Sequence[Any], bring_in: Any = Disposal.bring_in) -> Any:
    """Die once the first letters are on disk."""
    await bring_in(disposal, arrivals)
    os.kill(os.getpid(), signal.SIGKILL)


async def bring_in(url: str, file: str) -> None:
    """Import, and die."""
    letter_import.BITE = AT_ONCE
    Disposal.bring_in = one_bite  # type: ignore[method-assign, assignment]
    async with Standfast(url) as sf:
        await sf.dead_letters.import_(file, by="ann", reason="moving")


if __name__ == "__main__":
    asyncio.run(bring_in(*sys.argv[1:]))
