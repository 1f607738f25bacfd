"""A process that looks for alerts and tells of them, hurriedly, until it is killed: `python watching.py DATABASE`."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from standfast import Standfast
from standfast.application import standfast as application
from standfast.wings.alerts import lookout
from standfast.wings.alerts.rules import changes


async def watch(url: str) -> None:
    """Work, with everything that is slow made quick."""
    for module, name, quick in (
        (application, "LOOK_EVERY", 0.01),
        (application, "FOLLOW_EVERY", 0.01),
        (lookout, "TURN", 0.01),
        (lookout, "changes", partial(changes, calm=0.3)),
    ):
        setattr(module, name, quick)
    async with Standfast(url) as sf, sf.worker():
        print("watching", flush=True)  # noqa: T201 - the test waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(watch(sys.argv[1]))
