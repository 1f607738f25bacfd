"""Relays an outbox, and is gone between handing over and deleting: `python relaying.py STORE DATABASE`."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys

from standfast import Standfast
from standfast.wings.relay import outbox


def die(_connection: sqlite3.Connection, _numbers: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def relay(store: str, database: str) -> None:
    sf = Standfast(store)
    outbox._delete = die  # type: ignore[assignment]  # noqa: SLF001 - the moment to die at
    await sf.outbox(lambda: sqlite3.connect(database)).relay()


if __name__ == "__main__":
    asyncio.run(relay(*sys.argv[1:]))
