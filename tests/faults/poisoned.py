"""An application some of whose payloads end the process that runs them. The store is the environment's."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from pathlib import Path
from typing import Any

from standfast import Standfast, fixed

sf = Standfast()
sf.queue("work", attempts=3, backoff=fixed(0.01))


@sf.handler("work")
async def work(job: Any) -> str:
    """Let others begin beside it, then do what the payload says."""
    await asyncio.sleep(0.005)
    match job.payload["do"]:
        case "segfault":
            ctypes.string_at(0)
        case "run out of memory":  # what the kernel does then
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(0)
        case "wait":
            await until_told(Path(job.payload["place"]), job)
    return "done"


async def until_told(place: Path, job: Any) -> None:
    """Say which process runs this, and wait until it may end."""
    with (place / "started").open("a") as file:
        file.write(f"{job.id} {os.getpid()}\n")
    while not (place / "go").exists():  # noqa: ASYNC110 - another process tells
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    sf.run_worker(concurrency=8)
